// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/arguments.hpp"
#include "examples/thesis/claims.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom::examples::thesis {

/// The heads of one of the thesis' models, from a capture of the user's.
struct captured_model {
  std::string name;
  model_report report;
};

/// Analyses captures of the thesis' models: CAPTURE, whose manifest names its study, or MODEL=CAPTURE. Throws `error`
/// if a model is none of the published ones or is there twice.
std::vector<captured_model> read_captures(const std::vector<std::string>& captures, const arguments& a,
                                          const published& p);

/// Decides a claim that no published table does: evaluates its expression over the table `heads` of all captured heads
/// of the models that `captures` names. Undecided until all of them are captured, with the number over those that are.
finding find_in_captures(const stated_claim& claim, const published& p);

/// Layers with a recovery, stated as 29 of 32 and 26 of 32.
finding recovering_layers(const published& p);

}  // namespace qkgeom::examples::thesis
