// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "examples/drop_split/split_drop.hpp"

namespace qkgeom::examples {

/// Options of drop_split.
struct drop_arguments {
  std::string keys = "distances";  ///< or rotation
  index_t distance_cell = 0;       ///< tokens; 0: a 128th of the context
};

/// The split of one query head.
struct head_drop {
  index_t layer = 0, q_head = 0, k_head = 0;
  bool rope = true;
  std::string_view covariance;  ///< of the query model
  bool rotated_back = false;    ///< how keys were frozen: turned back, or pairs reweighed by distance
  drop_split split;
};

/// Every head's split under the first query model.
struct split_heads {
  std::string model;
  index_t context_length = 0;
  std::vector<head_drop> heads;
};

split_heads split_capture(const arguments& a, const drop_arguments& choice);
/// Writes drop_split.csv, drop_means.csv, the map of causes by layer and head, and the figure of their means.
void write_drops(output_folder& out, const split_heads& found);
void print_drops(printer& out, const split_heads& found);

}  // namespace qkgeom::examples
