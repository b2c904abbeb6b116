// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/backend/detail/pair_ranges.hpp"

/// How the pairs of a law are cut into square tiles of keys.
namespace qkgeom::tile {

using backend::group_range;

inline constexpr int tile_side = 128;

/// A run of tiles of one law. One group of more than tile_side keys: the upper triangle of tiles over keys
/// [first, first + count), one sum a tile. Else small groups that lie in at most tile_side keys from `first` on: one
/// tile, one sum a key.
struct tile_span {
  index_t first_tile, first, count;
  std::int32_t law, large;
};

/// First keys of the two sides of tile number `number` of a span.
struct tile_place {
  index_t i0, j0;
};
QKGEOM_HD inline tile_place place_of(const tile_span& span, index_t number) {
  if (!span.large) return {span.first, span.first};
  // Tile number t of i <= j is pair number t of i < j + 1.
  const auto at = backend::pair_of_number(number);
  return {span.first + index_t{at.i} * tile_side, span.first + index_t{at.j - 1} * tile_side};
}

/// Where the sum of one group lies: [begin, end) of the sums by tile or by key.
struct sum_span {
  index_t begin, end;
  std::int32_t tiles;  ///< whether of tiles, else of keys
  std::int32_t unused;
};

/// The tiles of one law, the same for all laws that admit the same keys.
struct tile_plan {
  std::vector<group_range> ranges;
  std::vector<tile_span> spans;  ///< first_tile from 0
  std::vector<sum_span> sums;    ///< (ranges) tiles from 0, or keys
  index_t tiles = 0;

  explicit tile_plan(std::vector<group_range> of) : ranges(std::move(of)) {
    for (const auto& r : ranges) {
      if (r.count > tile_side) {
        const index_t across = (r.count + tile_side - 1) / tile_side, more = across * (across + 1) / 2;
        spans.push_back({tiles, r.first, r.count, 0, 1});
        sums.push_back({tiles, tiles + more, 1, 0});
        tiles += more;
        continue;
      }
      sums.push_back({r.first, r.first + r.count, 0, 0});
      const index_t end = r.first + r.count;
      if (!spans.empty() && !spans.back().large && end - spans.back().first <= tile_side) {
        spans.back().count = end - spans.back().first;
        continue;
      }
      spans.push_back({tiles++, r.first, r.count, 0, 0});
    }
  }
};

}  // namespace qkgeom::tile
