// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/context/admissible.hpp"

/// How the pairs of a distribution are cut into square tiles of keys.
namespace qkgeom::tile {

inline constexpr int tile_side = 128, tile_threads = 256;

/// A run of tiles of one distribution. One group of more than tile_side keys: the upper triangle of tiles over keys
/// [first, first + count), one sum a tile. Else small groups that lie in at most tile_side keys from `first` on: one
/// tile, one sum a key.
struct tile_span {
  index_t first_tile, first, count, first_range;
  std::int32_t ranges, distribution, large, unused;
};

/// Which span holds every 2^shift-th tile, so that others are not far: spans are in the order of their tiles.
struct span_table {
  std::vector<std::int32_t> at;  ///< and at the end the last span
  int shift = 0;

  /// At most `most` entries besides the last.
  span_table(const std::vector<tile_span>& spans, index_t tiles, index_t most) {
    while ((tiles - 1) >> shift >= most) ++shift;
    for (std::size_t s = 0; s < spans.size(); ++s) {
      const index_t end = s + 1 < spans.size() ? spans[s + 1].first_tile : tiles;
      while (static_cast<index_t>(at.size()) << shift < end) at.push_back(static_cast<std::int32_t>(s));
    }
    at.push_back(static_cast<std::int32_t>(spans.size()) - 1);
  }
};

/// The span that holds a tile, by what a `span_table` says.
QKGEOM_HD inline const tile_span& span_of(const tile_span* spans, const std::int32_t* at, int shift, index_t tile) {
  index_t low = at[tile >> shift], high = index_t{at[(tile >> shift) + 1]} + 1;
  while (high - low > 1) {
    const index_t middle = (low + high) / 2;
    (spans[middle].first_tile <= tile ? low : high) = middle;
  }
  return spans[low];
}

/// The range of a span that admits a key, counted from the span's first; -1: none does.
QKGEOM_HD inline std::int32_t range_of(const tile_span& span, const group_range* ranges, index_t key) {
  std::int32_t low = 0, high = span.ranges;
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    (ranges[span.first_range + middle].first <= key ? low : high) = middle;
  }
  const group_range r = ranges[span.first_range + low];
  return key >= r.first && key < r.first + r.count ? low : -1;
}

/// First keys of the two sides of tile number `number` of a span.
struct tile_place {
  index_t i0, j0;
};
QKGEOM_HD inline tile_place place_of(const tile_span& span, index_t number) {
  if (!span.large) return {span.first, span.first};
  // Tile number t of i <= j is pair number t of i < j + 1.
  const auto at = pair_of_number(number);
  return {span.first + index_t{at.i} * tile_side, span.first + index_t{at.j - 1} * tile_side};
}

/// Where the sum of one group lies: [begin, end) of the sums by tile or by key.
struct sum_span {
  index_t begin, end;
  std::int32_t tiles;  ///< whether of tiles, else of keys
  std::int32_t unused;
};

/// The tiles of one distribution, the same for all distributions that admit the same keys.
struct tile_plan {
  std::vector<group_range> ranges;
  std::vector<tile_span> spans;  ///< first_tile and first_range from 0
  std::vector<sum_span> sums;    ///< (ranges) tiles from 0, or keys
  index_t tiles = 0;

  explicit tile_plan(std::vector<group_range> of) : ranges(std::move(of)) {
    index_t at = 0;
    for (const auto& r : ranges) {
      const index_t range = at++;
      if (r.count > tile_side) {
        const index_t across = (r.count + tile_side - 1) / tile_side, more = across * (across + 1) / 2;
        spans.push_back({tiles, r.first, r.count, range, 1, 0, 1, 0});
        sums.push_back({tiles, tiles + more, 1, 0});
        tiles += more;
        continue;
      }
      sums.push_back({r.first, r.first + r.count, 0, 0});
      const index_t end = r.first + r.count;
      if (!spans.empty() && !spans.back().large && end - spans.back().first <= tile_side) {
        spans.back().count = end - spans.back().first;
        ++spans.back().ranges;
        continue;
      }
      spans.push_back({tiles++, r.first, r.count, range, 1, 0, 0, 0});
    }
  }
};

}  // namespace qkgeom::tile
