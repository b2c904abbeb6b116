// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/common/numbers/causes.hpp"
#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// Two checkpoints, and each with the other's rotary embedding and context length.
struct embedding_step {
  std::string from, to;
  bool differs = false;  ///< whether embedding or length do
  /// The first; the first under the second's embedding; the second under the first's; the second.
  std::vector<trajectory_point> with;
};

/// The steps of `checkpoint_steps` whose captures hold rows and say their embedding; a note on stderr names the others.
/// Rows meet another embedding as in `what_if`. Takes two analyses for each step that differs.
std::vector<embedding_step> swap_embeddings(const arguments& a, const analysis_options& options,
                                            const std::vector<trajectory_point>& points,
                                            const std::vector<std::shared_ptr<const capture_set>>& sources);

/// embedding_split.csv.
void write_embedding_steps(output_folder& out, const std::vector<embedding_step>& steps);
void print_embedding_steps(printer& out, const std::vector<embedding_step>& steps);

}  // namespace qkgeom::examples
