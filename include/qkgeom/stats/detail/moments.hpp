// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::detail {

/// Returns one past the last position.
inline index_t length_of(const vector_view<const std::int32_t>& positions) {
  index_t length = 0;
  for (const std::int32_t t : positions) length = std::max<index_t>(length, index_t{t} + 1);
  return length;
}

/// Returns the bucket of each row; -1 outside all buckets. Throws if a position is negative.
inline std::vector<std::int32_t> bucket_of_rows(const bucket_edges& buckets,
                                                const vector_view<const std::int32_t>& positions) {
  std::vector<std::int32_t> rows(positions.size);
  for (index_t i = 0; i < positions.size; ++i) {
    require(positions[i] >= 0, "position of row ", i, " is ", positions[i], ", but positions start at 0");
    rows[i] = static_cast<std::int32_t>(buckets(positions[i]));
  }
  return rows;
}

/// Throws `error` if the rows of a head are too large or too small for computations from their moments.
inline void check_sizes(const char* side, const std::vector<side_moments>& heads) {
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const auto& m = heads[h].total;
    double largest = 0;
    for (index_t i = 0; i < m.dim() && m.count > 0; ++i)
      largest = std::max({largest, std::abs(m.mean[i]), std::sqrt(m.xx_diagonal(i) / static_cast<double>(m.count))});
    require(takes_size(largest), side, " head ", h, " holds values of size ", largest, ", but sizes must lie between ",
            smallest_size, " and ", largest_size, "; scale the rows");
  }
}

/// Returns the longer of two bucket grids; throws unless one is the beginning of the other.
inline bucket_edges joined(const bucket_edges& a, const bucket_edges& b) {
  const auto &x = a.edges(), &y = b.edges();
  const auto& longer = x.size() >= y.size() ? x : y;
  const auto& shorter = x.size() >= y.size() ? y : x;
  require(std::equal(shorter.begin(), shorter.end(), longer.begin()),
          "cannot merge moments over different bucket edges; give both the same buckets and context_length");
  return bucket_edges(longer);
}

/// Throws `error` if the other grid, of `longest` buckets, may hold rows of this side outside this side's buckets.
inline void check_rows_in_grid(const side_moments& side, std::size_t longest) {
  if (side.bucket.empty() || side.bucket.size() >= longest) return;
  index_t inside = 0;
  for (const auto& b : side.bucket) inside += b.count;
  require(inside == side.total.count, "cannot merge moments over different bucket edges: ", side.total.count - inside,
          " rows lie outside the shorter edges; give both the same context_length");
}

}  // namespace qkgeom::detail
