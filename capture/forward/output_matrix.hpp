// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// The tensor that turns hidden states into logits.
struct output_matrix {
  std::string name;
  std::vector<index_t> shape;  ///< (words, hidden)
};
/// The first of the description's names that the checkpoint has; if it has none and the description says that the
/// output is tied, the embedding. Throws if there is neither, if it or the last norm has a wrong shape, or if the model
/// caps its logits.
output_matrix find_output(const decoder_description& model, const checkpoint& weights, const std::string& prefix);

}  // namespace qkgeom
