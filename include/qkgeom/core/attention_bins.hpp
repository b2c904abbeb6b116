// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"

namespace qkgeom {

/// Beginnings of a document whose attention mass is summed: its first 1, 4 and 64 tokens.
inline constexpr std::array<index_t, 3> first_tokens{1, 4, 64};

/// Edges of the bins into which distances from a query to a key fall, in tokens, over a context of `length`: 0, 1, 2,
/// 4, 8, ..., the last one `length` or more.
inline bucket_edges distance_edges(index_t length) {
  std::vector<index_t> edges{0, 1};
  while (edges.back() < length) edges.push_back(2 * edges.back());
  return bucket_edges(std::move(edges));
}
/// How many bins these are.
inline index_t distance_bins(index_t length) { return distance_edges(length).count(); }

}  // namespace qkgeom
