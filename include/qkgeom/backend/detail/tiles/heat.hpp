// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/tiles/team.hpp"

/// Heatmaps in fixed point, so that atomic sums depend on no order.
namespace qkgeom::tile {

/// Numbers as a multiple of `coarse` and one of `fine` for the rest, both powers of two, in 64 bits each.
struct fixed_point {
  double coarse = 1, fine = 1;

  /// For `count` numbers of at most `most` in size: neither term overflows, and a number errs by at most fine / 2, some
  /// 2^-90 count^2 most.
  static fixed_point of(double most, double count) {
    if (!(most * count > 0)) return {};
    const double coarse = std::ldexp(1.0, std::ilogb(most) + std::ilogb(count) + 2 - 61);
    return {coarse, std::ldexp(coarse, std::ilogb(count) + 1 - 63)};
  }
  QKGEOM_HD void add(unsigned long long* to, unsigned long long* rest, double x) const {
    const auto steps = std::llrint(x / coarse);
    add_to(to, static_cast<unsigned long long>(steps));
    const auto left = std::llrint((x - static_cast<double>(steps) * coarse) / fine);
    add_to(rest, static_cast<unsigned long long>(left));
  }
  QKGEOM_HD double value(unsigned long long sum, unsigned long long rest) const {
    return static_cast<double>(static_cast<long long>(sum)) * coarse +
           static_cast<double>(static_cast<long long>(rest)) * fine;
  }
};

/// |z| of a pair counts at most this much in a cell.
inline constexpr float most_abs_z = 0x1p40f;

/// Where every pair counts 1: 2^30 times the plasticity, and numbers of pairs.
inline constexpr double heat_unit = 1073741824.0;

/// Cells that keep sums apart by group: (problems, groups, cells) of the number of pairs, the plasticity and its terms,
/// in two words each.
struct group_cells {
  static constexpr int values = 1 + static_cast<int>(heatmap_terms::values);
  unsigned long long* sum;
  const fixed_point* unit;  ///< (problems, values)
  index_t groups;

  QKGEOM_HD static index_t place(index_t of, index_t value) { return (of * values + value) * 2; }
  QKGEOM_HD void add(index_t problem, index_t of, const double* x) const {
    for (int v = 0; v < values; ++v) {
      unsigned long long* const to = sum + place(of, v);
      unit[problem * values + v].add(to, to + 1, x[v]);
    }
  }
};

/// (problems, cells) sums of plasticity and of weights; what is left of them where there are weights. With terms
/// `by_group` takes their place.
struct tile_heat {
  unsigned long long *sum, *weight, *sum_rest, *weight_rest;
  const fixed_point* unit;  ///< (problems) where there are weights
  backend::heatmap_cells cells;
  group_cells by_group{};
};

}  // namespace qkgeom::tile
