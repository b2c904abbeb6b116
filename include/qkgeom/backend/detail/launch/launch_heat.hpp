// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "qkgeom/backend/detail/launch/launch.hpp"
#include "qkgeom/backend/detail/tiles/weights.hpp"

/// Units and results of the heatmaps of tile programs.
namespace qkgeom::thrust_kernels {

/// Returns the fixed-point unit of each problem's heatmap if pairs have weights; one launch finds the largest weight.
template <class Launcher, class Groups, class Weight>
std::vector<tile::fixed_point> heat_units(const Launcher& launcher, const Groups& groups, const std::int32_t* document,
                                          const std::vector<pair_problem>& problems,
                                          const std::vector<bucket_place>& buckets, tile_plans& plans,
                                          const Weight& weight) {
  const auto& device = launcher.device();
  std::vector<const tile::tile_plan*> plan_of;
  std::vector<double> tau, pairs(problems.size());
  std::vector<index_t> problem;
  for (const auto& place : buckets) {
    const auto& scores = scores_at(problems, place);
    const auto& plan = plans.of(groups.host, scores);
    plan_of.push_back(&plan);
    tau.push_back(scores.tau);
    problem.push_back(place.problem);
    for (const auto& r : plan.ranges) pairs[place.problem] += 0.5 * static_cast<double>(r.count * (r.count - 1));
  }
  const auto on_tau = device.copy(tau);
  const auto on_problem = device.copy(problem);
  const auto most = device.template make<unsigned long long>(static_cast<index_t>(problems.size()));
  device.fill(most.data(), most.size(), 0ull);
  tile_batch(groups.n, plan_of).each_tile(launcher, [&](const tile::tile_list& list) {
    return tile::largest_weight<Weight>{
        list, {groups.position.data(), document}, on_tau.data(), on_problem.data(), weight, most.data()};
  });
  std::vector<tile::fixed_point> units;
  for (const auto bits : most.host())
    units.push_back(tile::fixed_point::of(std::bit_cast<double>(bits), pairs[units.size()]));
  return units;
}

/// Reads heatmaps back. `sum` (2, problems, width, width): sums, then weights; with `units` their low words follow.
inline void read_heat(const std::vector<unsigned long long>& sum, const std::vector<tile::fixed_point>& units,
                      index_t width, std::vector<pair_sums>& results) {
  const auto problems = static_cast<index_t>(results.size()), all = problems * width * width;
  for (index_t p = 0; p < problems; ++p) {
    auto& r = results[p];
    for (index_t i = 0; i < r.heatmap_width; ++i)
      for (index_t j = 0; j < r.heatmap_width; ++j) {
        const index_t from = (p * width + i) * width + j, to = i * r.heatmap_width + j;
        const auto value = [&](index_t at, double unit) {
          return units.empty() ? static_cast<double>(sum[at]) / unit : units[p].value(sum[at], sum[2 * all + at]);
        };
        r.heatmap_sum[to] = value(from, tile::heat_unit);
        r.heatmap_weight[to] = value(all + from, 1);
      }
  }
}

/// Writes |y_i|^2 to to[i].
struct square_norms {
  const double* y;
  index_t d;
  double* to;
  QKGEOM_HD void operator()(index_t i) const {
    double sum = 0;
    for (index_t c = 0; c < d; ++c) sum += y[i * d + c] * y[i * d + c];
    to[i] = sum;
  }
};

/// Returns the units (group_cells::values) of the cells of a problem whose keys have norms up to `largest_norm`.
inline std::vector<tile::fixed_point> cell_units(const pair_problem& problem, double largest_norm, double pairs) {
  double mean = 0, variance = 0;
  for (const auto& scores : problem.distributions) {
    double m = 0, v = 0;
    for (const double x : scores.mean) m += x * x;
    for (const double x : scores.variance) v += x;
    for (const double x : scores.factor) v += x * x;
    mean = std::max(mean, std::sqrt(m));
    variance = std::max(variance, v);
  }
  const double m = 2.1 * mean * largest_norm, v = 3.2 * variance * (2 * largest_norm) * (2 * largest_norm);
  std::vector<tile::fixed_point> units;
  for (const double most : {1.0, 1.1, 1.1, m, m, v, v, v, static_cast<double>(tile::most_abs_z)})
    units.push_back(tile::fixed_point::of(most, pairs));
  return units;
}

/// Writes to (problems, cells, width) the sums over groups that heatmap_terms holds: number of groups, weight,
/// weight^2, then sum, square and product with the weight of each value.
struct fold_groups {
  static constexpr index_t values = heatmap_terms::values, width = 3 + 3 * values;
  tile::group_cells by_group;
  index_t cells;
  double* to;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t problem = item / cells, cell = item % cells;
    double* const x = to + item * width;
    for (index_t i = 0; i < width; ++i) x[i] = 0;
    for (index_t g = 0; g < by_group.groups; ++g) {
      const index_t at = (problem * by_group.groups + g) * cells + cell;
      const auto value = [&](index_t v) {
        const unsigned long long* const from = by_group.sum + tile::group_cells::place(at, v);
        return by_group.unit[problem * tile::group_cells::values + v].value(from[0], from[1]);
      };
      const double w = value(0);
      if (w == 0) continue;
      x[0] += 1;
      x[1] += w;
      x[2] += w * w;
      for (index_t v = 0; v < values; ++v) {
        const double s = value(1 + v);
        x[3 + v] += s;
        x[3 + values + v] += s * s;
        x[3 + 2 * values + v] += s * w;
      }
    }
  }
};

/// Reads one problem's cells (width, width, fold_groups::width) back as its heatmap.
inline void read_cells(const double* from, index_t width, pair_sums& to) {
  to.cells = blank_cells(to.heatmap_sum.size());
  constexpr index_t values = heatmap_terms::values;
  for (index_t i = 0; i < to.heatmap_width; ++i)
    for (index_t j = 0; j < to.heatmap_width; ++j) {
      const double* const x = from + (i * width + j) * fold_groups::width;
      const index_t cell = i * to.heatmap_width + j;
      to.cells.groups[cell] = x[0];
      to.cells.weight[cell] = to.heatmap_weight[cell] = x[1];
      to.cells.weight_square[cell] = x[2];
      to.heatmap_sum[cell] = x[3];
      for (index_t v = 0; v < values; ++v) {
        to.cells.sum[cell * values + v] = x[3 + v];
        to.cells.square[cell * values + v] = x[3 + values + v];
        to.cells.product[cell * values + v] = x[3 + 2 * values + v];
      }
    }
}

}  // namespace qkgeom::thrust_kernels
