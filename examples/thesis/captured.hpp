// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/arguments.hpp"
#include "examples/thesis/claims.hpp"

namespace qkgeom::examples::thesis {

/// Analyses captures of the thesis' models: CAPTURE, whose manifest names its study, or MODEL=CAPTURE. Throws `error`
/// if a model is none of the published ones or is there twice.
std::vector<captured_model> read_captures(const std::vector<std::string>& captures, const arguments& a,
                                          const published& p);

/// Claims that no published table decides, from captures of all models that they are about; `needed` is what decides
/// them where there are none.
claim_functions captured_claims();

}  // namespace qkgeom::examples::thesis
