// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/context/pair_problem.hpp"

/// How the pairs of a query bucket are cut into square tiles of keys.
namespace qkgeom::tile {

inline constexpr int tile_side = 128, tile_threads = 256;

/// A run of pair tiles of one query bucket over keys [first, first + count). `large`: one group of more than tile_side
/// keys, the upper triangle of its tiles, a sum per tile. Otherwise small groups in one tile, a sum per key.
struct tile_span {
  index_t first_tile = 0, first = 0, count = 0, first_range = 0;
  std::int32_t ranges = 1, bucket = 0, large = 0;
  std::int32_t unused = 0;  ///< no padding, so that every byte that goes to a device is set
};

/// A table of the span of every 2^shift-th tile, from which a short search finds any span. Spans are in tile order.
struct span_table {
  std::vector<std::int32_t> at;  ///< ends with the last span
  int shift = 0;

  /// Makes a table of at most `most` entries before the last.
  span_table(const std::vector<tile_span>& spans, index_t tiles, index_t most) {
    while ((tiles - 1) >> shift >= most) ++shift;
    for (std::size_t s = 0; s < spans.size(); ++s) {
      const index_t end = s + 1 < spans.size() ? spans[s + 1].first_tile : tiles;
      while (static_cast<index_t>(at.size()) << shift < end) at.push_back(static_cast<std::int32_t>(s));
    }
    at.push_back(static_cast<std::int32_t>(spans.size()) - 1);
  }
};

/// Returns the span that holds a tile; `at` and `shift` are members of a `span_table`.
QKGEOM_HD inline const tile_span& span_of(const tile_span* spans, const std::int32_t* at, int shift, index_t tile) {
  index_t low = at[tile >> shift], high = index_t{at[(tile >> shift) + 1]} + 1;
  while (high - low > 1) {
    const index_t middle = (low + high) / 2;
    (spans[middle].first_tile <= tile ? low : high) = middle;
  }
  return spans[low];
}

/// Returns the number, within a span, of the range that admits a key, or -1.
QKGEOM_HD inline std::int32_t range_of(const tile_span& span, const group_range* ranges, index_t key) {
  std::int32_t low = 0, high = span.ranges;
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    (ranges[span.first_range + middle].first <= key ? low : high) = middle;
  }
  const group_range r = ranges[span.first_range + low];
  return key >= r.first && key < r.first + r.count ? low : -1;
}

/// The first keys of the two sides of a tile.
struct tile_place {
  index_t i0, j0;
};
/// Returns the place of tile `number` of a span. Tiles are numbered square by square, 8 x 8 tiles each, so that tiles
/// that run at the same time read few keys.
QKGEOM_HD inline tile_place place_of(const tile_span& span, index_t number) {
  if (!span.large) return {span.first, span.first};
  constexpr index_t side = 8;
  // Column by column, tile t of i <= j is pair t of i < j + 1. A column of squares begins where its first column does.
  const index_t left = (index_t{pair_of_number(number).j} - 1) / side * side, before = left * (left + 1) / 2;
  const index_t across = (span.count + tile_side - 1) / tile_side, width = across - left < side ? across - left : side;
  const index_t at = number - before, above = left * width;  // tiles above the square on the diagonal
  const auto on_diagonal = pair_of_number(at < above ? 0 : at - above);
  const index_t i = at < above ? at / width : left + index_t{on_diagonal.i},
                j = left + (at < above ? at % width : index_t{on_diagonal.j} - 1);
  return {span.first + i * tile_side, span.first + j * tile_side};
}

/// The sums [begin, end) that add up to one group's: by tile if `tiles`, else by key.
struct sum_span {
  index_t begin = 0, end = 0;
  std::int32_t tiles = 0;
  std::int32_t unused = 0;  ///< no padding
};

/// The pair tiles of the query buckets that admit the same keys, over these ranges of them.
struct tile_plan {
  std::vector<group_range> ranges;
  std::vector<tile_span> spans;  ///< first_tile and first_range from 0
  std::vector<sum_span> sums;    ///< (ranges) tiles counted from 0
  index_t tiles = 0;

  explicit tile_plan(std::vector<group_range> of) : ranges(std::move(of)) {
    index_t at = 0;
    for (const auto& r : ranges) {
      const index_t range = at++;
      if (r.count > tile_side) {
        const index_t across = (r.count + tile_side - 1) / tile_side, more = across * (across + 1) / 2;
        spans.push_back({.first_tile = tiles, .first = r.first, .count = r.count, .first_range = range, .large = 1});
        sums.push_back({.begin = tiles, .end = tiles + more, .tiles = 1});
        tiles += more;
        continue;
      }
      sums.push_back({.begin = r.first, .end = r.first + r.count});
      const index_t end = r.first + r.count;
      if (!spans.empty() && !spans.back().large && end - spans.back().first <= tile_side) {
        spans.back().count = end - spans.back().first;
        ++spans.back().ranges;
        continue;
      }
      spans.push_back({.first_tile = tiles++, .first = r.first, .count = r.count, .first_range = range});
    }
  }
};

}  // namespace qkgeom::tile
