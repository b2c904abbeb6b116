// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/context/pair_problem.hpp"

namespace qkgeom::backend {

/// Cells of a heatmap over pairs: row, distance of the keys; column, distance of the query from the middle of the pair.
struct heatmap_cells {
  double cell = 1, per_cell = 1;  ///< width of a cell in tokens, and its inverse
  index_t width = 0;              ///< cells along each side

  static heatmap_cells of(index_t cell, index_t width) {
    return {static_cast<double>(cell), 1 / static_cast<double>(cell), width};
  }

  /// The part of a cell that does not depend on the query, for keys at t_i <= t_j: row and middle of the pair.
  struct pair_place {
    index_t row = -1;
    double middle = 0;
  };
  QKGEOM_HD pair_place place(std::int32_t t_i, std::int32_t t_j) const {
    return {floor_cells(static_cast<double>(t_j - t_i)), 0.5 * (static_cast<double>(t_i) + static_cast<double>(t_j))};
  }
  /// Returns the cell of a pair whose query stands at tau; -1 outside the heatmap.
  QKGEOM_HD index_t cell_of(const pair_place& at, double tau) const {
    if (at.row < 0 || at.row >= width) return -1;
    const index_t back = floor_cells(tau - at.middle);
    if (back < 0 || back >= width) return -1;
    return at.row * width + back;
  }

  /// A cell, and the last position of later keys in it.
  struct cell_run {
    index_t cell = -1;
    std::int32_t last = -1;
  };
  /// Returns the cell of the pair t_i <= t_j. Pairs of t_i with later keys up to position `last` or beyond share it.
  QKGEOM_HD cell_run run_of(std::int32_t t_i, std::int32_t t_j, double tau) const {
    const pair_place at = place(t_i, t_j);
    const index_t found = cell_of(at, tau);
    if (found < 0) return {};
    const auto i = static_cast<double>(t_i), row = static_cast<double>(at.row),
               back = static_cast<double>(found - at.row * width);
    // Leaves keys within 1/4 of the next cell to cell_of, so that rounding moves no key.
    const double of_row = i + (row + 1) * cell - 1, of_column = 2 * (tau - back * cell) - i - 0.25;
    constexpr double most = std::numeric_limits<std::int32_t>::max();
    const double last = of_row < of_column ? of_row : of_column;
    return {found, static_cast<std::int32_t>(last < most ? last : most)};
  }

 private:
  /// Returns floor(x / cell), exactly, without a division.
  QKGEOM_HD index_t floor_cells(double x) const {
    auto q = static_cast<index_t>(x * per_cell);
    const double rest = x - static_cast<double>(q) * cell;
    q -= rest < 0;
    q += rest >= cell;
    return q;
  }
};

/// Sets the plasticity of a pair, then its terms in the order of `pair_term`, in f64: m = drift + content is the mean
/// of the score difference and v its variance, to which coordinate 1 gives `along` and coordinates 2..d give `rest`.
/// `tile::set_terms` is the f32 form, which computes `rest` from the cross term instead.
QKGEOM_HD inline void set_pair_values(double drift, double content, double along, double rest, double v,
                                      bool same_position, double* out) {
  const double m = drift + content;
  out[0] = pair_plasticity(m, v);
  out[1] = same_position ? 0.5 : win_probability(-m, v);
  out[2] = std::fabs(drift);
  out[3] = std::fabs(content);
  out[4] = along;
  out[5] = rest;
  out[6] = v - along - rest;
  out[7] = v > 0 ? std::fabs(m) / std::sqrt(v) : (m == 0 ? 0.0 : HUGE_VAL);
}

/// Numbers per cell of one group: weight, sum of the plasticity, sums of the terms.
inline constexpr index_t cell_stride = 1 + heatmap_terms::values;

inline void merge(heatmap_terms& to, const heatmap_terms& from) {
  for (const auto& array : heatmap_arrays)
    for (std::size_t i = 0; i < (to.*array.values).size(); ++i) (to.*array.values)[i] += (from.*array.values)[i];
}

/// Adds one group's sums by cell (cells, cell_stride) to the sums over groups.
inline void fold(const std::vector<double>& group, heatmap_terms& to) {
  for (index_t c = 0; c < static_cast<index_t>(to.weight.size()); ++c) {
    const double* const x = group.data() + c * cell_stride;
    if (x[0] == 0) continue;
    to.groups[c] += 1;
    to.weight[c] += x[0];
    to.weight_square[c] += x[0] * x[0];
    for (index_t v = 0; v < heatmap_terms::values; ++v) {
      const index_t at = c * heatmap_terms::values + v;
      to.sum[at] += x[1 + v];
      to.square[at] += x[1 + v] * x[1 + v];
      to.product[at] += x[1 + v] * x[0];
    }
  }
}

/// Returns the sums over groups from all groups' sums by cell.
inline heatmap_terms folded(const std::vector<std::vector<double>>& groups, std::size_t cells) {
  auto terms = blank_cells(cells);
  for (const auto& group : groups) fold(group, terms);
  return terms;
}

}  // namespace qkgeom::backend
