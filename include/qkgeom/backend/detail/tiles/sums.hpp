// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/tiles/tile_plan.hpp"
#include "qkgeom/backend/detail/tiles/tile_team.hpp"

/// Parts of all tile programs: the keys that a tile holds, and the place of its sums.
namespace qkgeom::tile {

/// The pair tiles of a launch, over the same n keys under each query bucket.
struct tile_list {
  const tile_span* spans;
  const std::int32_t* span_at;  ///< span_table::at
  int span_shift;               ///< span_table::shift
  index_t first_tile;
  const group_range* ranges;
  index_t n;
};

/// Sums in f64 by tile (values, tiles) for large groups, by key (values, buckets * n) for small ones.
struct tile_sums {
  double *tile, *key;
  index_t tiles, keys;
};

/// One tile: the pairs of keys [i0, i0 + tile_side) with keys [j0, j0 + tile_side), all before `end`.
struct placed_tile {
  index_t number, i0, j0, end;
  tile_span span;

  QKGEOM_HD placed_tile(const tile_list& list, index_t block) : number(list.first_tile + block) {
    span = span_of(list.spans, list.span_at, list.span_shift, number);
    const auto at = place_of(span, number - span.first_tile);
    i0 = at.i0;
    j0 = at.j0;
    end = span.first + span.count;
  }
  QKGEOM_HD index_t key(int side, int row) const { return (side ? j0 : i0) + row; }
};

/// Columns [first, end) of a tile.
struct column_run {
  int first, end;
  QKGEOM_HD bool empty() const { return first >= end; }
};

/// The columns that make a pair with each row of a tile: a run, since keys of a group lie together.
struct admitted_keys {
  std::int32_t range[tile_side];  ///< range of the span that admits the row's key; -1 without one or without a key
  std::int32_t end[tile_side];    ///< columns before it lie in that range, or before the row

  /// Loads the range of a row, which is kept, or of a column.
  QKGEOM_HD std::int32_t load(const tile_list& list, const placed_tile& tile, int side, int row) {
    const index_t key = tile.key(side, row);
    const std::int32_t number = key < tile.end ? range_of(tile.span, list.ranges, key) : -1;
    if (side == 1) return number;
    const group_range r = list.ranges[tile.span.first_range + (number < 0 ? 0 : number)];
    const index_t columns = number < 0 ? 0 : r.first + r.count - tile.j0;
    range[row] = number;
    end[row] = static_cast<std::int32_t>(columns < 0 ? 0 : (columns < tile_side ? columns : tile_side));
    return number;
  }
  /// Returns the columns in [from, to) that make a pair with row r: of one group, admitted, the earlier key first.
  QKGEOM_HD column_run columns(const placed_tile& tile, int r, int from = 0, int to = tile_side) const {
    const int after = tile.i0 == tile.j0 ? r + 1 : 0;
    return {after > from ? after : from, end[r] < to ? end[r] : to};
  }
  /// Returns whether all rows and columns make pairs. The first row shows it, since keys of one range lie together.
  QKGEOM_HD bool are_all(const placed_tile& tile) const { return tile.i0 != tile.j0 && end[0] == tile_side; }
};

/// Writes value number `value` of a tile from its sums by row. After it, thread t may set rows[t] without waiting.
template <class Team>
QKGEOM_HD void write_sums(const Team& team, const placed_tile& tile, index_t n, const double* rows, const tile_sums& to,
                          index_t value) {
  if (!tile.span.large) {
    team.each([&](int t) {
      if (t < tile_side && tile.i0 + t < tile.end)
        to.key[value * to.keys + tile.span.bucket * n + tile.i0 + t] = rows[t];
    });
    return;
  }
  typename Team::template per_thread<double> sum;
  team.each_then_wait([&](int t) { sum[t] = t < 32 ? (rows[t] + rows[t + 32]) + (rows[t + 64] + rows[t + 96]) : 0.0; });
  team.template sum_lanes<32>(sum);
  team.each([&](int t) {
    if (t == 0) to.tile[value * to.tiles + tile.number] = sum[t];
  });
}

/// Sums span i into to(value, i): by one warp, lane by lane, then by halves.
struct sum_program {
  static constexpr int threads = 256, blocks_per_processor = 4;
  const sum_span* spans;
  index_t n, values;
  tile_sums from;
  double* to;

  index_t shared_bytes() const { return 0; }
  index_t blocks() const { return (n * values * 32 + threads - 1) / threads; }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char*) const {
    typename Team::template per_thread<double> sum;
    team.each([&](int t) {
      sum[t] = 0;
      const index_t at = (block * threads + t) / 32;
      if (at >= n * values) return;
      const index_t value = at / n;
      const sum_span s = spans[at % n];
      const double* const x = s.tiles ? from.tile + value * from.tiles : from.key + value * from.keys;
      for (index_t i = s.begin + t % 32; i < s.end; i += 32) sum[t] += x[i];
    });
    team.template sum_lanes<32>(sum);
    team.each([&](int t) {
      const index_t at = (block * threads + t) / 32;
      if (t % 32 == 0 && at < n * values) to[at] = sum[t];
    });
  }
};

// Heatmaps in fixed point, so that atomic sums do not depend on their order.

/// A number as multiples of `coarse` (high word) and `fine` (low word), powers of two; words have 64 bits.
struct fixed_point {
  double coarse = 1, fine = 1;

  /// Returns units for `count` numbers of size at most `most`: no word overflows; errors: fine / 2, 2^-90 count^2 most.
  static fixed_point of(double most, double count) {
    if (!(most * count > 0)) return {};
    const double coarse = std::ldexp(1.0, std::ilogb(most) + std::ilogb(count) + 2 - 61);
    return {coarse, std::ldexp(coarse, std::ilogb(count) + 1 - 63)};
  }
  QKGEOM_HD void add(unsigned long long* high, unsigned long long* low, double x) const {
    const auto steps = std::llrint(x / coarse);
    add_to(high, static_cast<unsigned long long>(steps));
    const auto left = std::llrint((x - static_cast<double>(steps) * coarse) / fine);
    add_to(low, static_cast<unsigned long long>(left));
  }
  QKGEOM_HD double value(unsigned long long high, unsigned long long low) const {
    return static_cast<double>(static_cast<long long>(high)) * coarse +
           static_cast<double>(static_cast<long long>(low)) * fine;
  }
};

/// The most that |z| of a pair adds to a cell.
inline constexpr float most_abs_z = 0x1p40f;

/// Unit of cells where every pair counts 1: 2^30 times the plasticity; weights are numbers of pairs.
inline constexpr double heat_unit = 1073741824.0;

/// Cells by group, (problems, groups, cells, values, 2 words): number of pairs, plasticity, terms.
struct group_cells {
  static constexpr int values = 1 + static_cast<int>(heatmap_terms::values);
  unsigned long long* sum;
  const fixed_point* unit;  ///< (problems, values)
  index_t groups;

  /// Returns the place of a value of cell `cell` of (problems, groups, cells).
  QKGEOM_HD static index_t place(index_t cell, index_t value) { return (cell * values + value) * 2; }
  QKGEOM_HD void add(index_t problem, index_t cell, const double* x) const {
    for (int v = 0; v < values; ++v) {
      unsigned long long* const to = sum + place(cell, v);
      unit[problem * values + v].add(to, to + 1, x[v]);
    }
  }
};

/// The heatmaps of a launch; with terms, only `by_group`.
struct tile_heat {
  unsigned long long *sum = nullptr, *weight = nullptr;  ///< (problems, cells) of plasticity, of weights
  unsigned long long *sum_low = nullptr,
                     *weight_low = nullptr;  ///< low words of the fixed-point sums, used with weights
  const fixed_point* unit = nullptr;         ///< (problems), used with weights
  backend::heatmap_cells cells;
  group_cells by_group{};
};

}  // namespace qkgeom::tile
