// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/tiles/tile_team.hpp"

/// Heatmaps in fixed point, so that atomic sums do not depend on their order.
namespace qkgeom::tile {

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
