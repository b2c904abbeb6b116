// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "capture/job/run_capture.hpp"

namespace qkgeom {

/// Difference of q and k of a layer from a reference's.
struct layer_difference {
  index_t layer = 0;
  double q = 0, k = 0;  ///< largest difference over the reference's largest entry
  std::string cause{};  ///< likely cause of a large difference; empty: unknown
};

/// Difference that rounding cannot explain, neither in f32 nor in bf16.
inline constexpr double large_difference = 0.05;

/// Runs the tokens of a reference, which transformers made (docs/capture.md has the lines of Python), and compares the
/// queries and keys of every layer that it holds: `ids` (n) in I32 or I64, `q.L` (query heads, n, d) and `k.L` (key
/// heads, n, d) in F32, after the rotary embedding. Throws `error` on another model's shapes.
std::vector<layer_difference> compare_with_reference(const capture_options& options,
                                                     const std::filesystem::path& reference, std::ostream& notes,
                                                     const capture_backend& backend = {});

/// Prints a line per layer, then a conclusion. Returns whether all layers agree.
bool print_differences(std::ostream& out, const std::vector<layer_difference>& layers);

}  // namespace qkgeom
