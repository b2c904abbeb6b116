// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"

namespace qkgeom {

/// Attention mass is summed over the first 1, 4 and 64 tokens of a document.
inline constexpr std::array<index_t, 3> first_tokens{1, 4, 64};

/// Returns the edges, in tokens, of the bins of query-to-key distance over a context of `length` tokens: 0, 1, 2, 4, 8,
/// ..., up to the first that is at least `length`.
inline bucket_edges distance_edges(index_t length) {
  std::vector<index_t> edges{0, 1};
  while (edges.back() < length) edges.push_back(2 * edges.back());
  return bucket_edges(std::move(edges));
}
/// Returns the number of bins of `distance_edges`.
inline index_t distance_bins(index_t length) { return distance_edges(length).count(); }

}  // namespace qkgeom
