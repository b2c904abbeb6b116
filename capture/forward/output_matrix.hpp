// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// The tensor that maps hidden states to logits.
struct output_matrix {
  std::string name;
  std::vector<index_t> shape;  ///< (words, hidden)
};
/// Finds the first of the description's names that the checkpoint has, or the embedding if there is none and the output
/// is tied. Throws `error` if there is neither, or if the tensor or the last norm has a wrong shape.
output_matrix find_output(const decoder_description& model, const checkpoint& weights, const std::string& prefix);

/// Returns whether the checkpoint has an output matrix of other entries than the embedding.
bool has_own_output(const decoder_description& d, const checkpoint& weights);

}  // namespace qkgeom
