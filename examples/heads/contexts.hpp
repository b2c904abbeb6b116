// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "examples/common/numbers/comparison.hpp"
#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// The same captures as if their context ended at each of `lengths` tokens, and whole: query buckets keep their share
/// of the context. One model per length, by rising length. Throws `error` if a length lies outside of the context.
std::vector<compared_model> analyse_contexts(const arguments& a, const analysis_options& options,
                                             std::vector<index_t> lengths);

/// Writes contexts.csv, in the columns of models.csv, and the figure contexts.
void write_contexts(output_folder& out, const std::vector<compared_model>& contexts);
/// Prints head classes, bias and plasticity by length.
void print_contexts(printer& out, const std::vector<compared_model>& contexts);

}  // namespace qkgeom::examples
