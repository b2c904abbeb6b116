// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <vector>

#include "qkgeom/backend/detail/thrust_fused.hpp"
#include "qkgeom/backend/detail/tile_heat.hpp"
#include "qkgeom/backend/detail/weight_tile.hpp"

/// Heatmaps of fused pair sums.
namespace qkgeom::thrust_kernels {

/// A law of the problems of a call.
struct law_place {
  index_t problem, law;
};
inline const score_law& law_at(const std::vector<pair_problem>& problems, const law_place& at) {
  return problems[static_cast<std::size_t>(at.problem)].laws[static_cast<std::size_t>(at.law)];
}

/// What the heatmap of each problem is counted in where pairs have weights: one look at all of them finds the largest.
template <class Engine, class Groups, class Weight>
std::vector<tile::fixed_point> heat_units(const Engine& engine, const Groups& groups, const std::int32_t* example,
                                          const std::vector<pair_problem>& problems, const std::vector<law_place>& laws,
                                          tile_plans& plans, const Weight& weight) {
  const auto& on = engine.machine();
  tile_batch batch(groups.n);
  std::vector<double> tau, pairs(problems.size());
  std::vector<index_t> problem;
  for (const auto& place : laws) {
    const auto& law = law_at(problems, place);
    const auto& plan = plans.of(groups.host, law);
    batch.add(plan);
    tau.push_back(law.tau);
    problem.push_back(place.problem);
    for (const auto& r : plan.ranges)
      pairs[static_cast<std::size_t>(place.problem)] += 0.5 * static_cast<double>(r.count * (r.count - 1));
  }
  const auto on_tau = on.copy(tau);
  const auto on_problem = on.copy(problem);
  const auto most = on.template make<unsigned long long>(static_cast<index_t>(problems.size()));
  on.fill(most.data(), most.size(), 0ull);
  batch.each_tile(engine, [&](const tile::tile_list& list) {
    return tile::largest_weight<Weight>{
        list, {groups.position.data(), example}, on_tau.data(), on_problem.data(), weight, most.data()};
  });
  std::vector<tile::fixed_point> units;
  for (const auto bits : most.host())
    units.push_back(tile::fixed_point::of(std::bit_cast<double>(bits), pairs[units.size()]));
  return units;
}

/// `sum`: (sums and weights, problems, cells of `width` a side), with `units` their rests too.
inline void read_heat(const std::vector<unsigned long long>& sum, const std::vector<tile::fixed_point>& units,
                      index_t width, std::vector<pair_sums>& results) {
  const std::size_t all = results.size() * static_cast<std::size_t>(width * width);
  for (std::size_t p = 0; p < results.size(); ++p) {
    auto& r = results[p];
    for (index_t i = 0; i < r.heatmap_width; ++i)
      for (index_t j = 0; j < r.heatmap_width; ++j) {
        const auto from = static_cast<std::size_t>((static_cast<index_t>(p) * width + i) * width + j);
        const auto to = static_cast<std::size_t>(i * r.heatmap_width + j);
        const auto value = [&](std::size_t at, double unit) {
          return units.empty() ? static_cast<double>(sum[at]) / unit : units[p].value(sum[at], sum[2 * all + at]);
        };
        r.heatmap_sum[to] = value(from, tile::heat_unit);
        r.heatmap_weight[to] = value(all + from, 1);
      }
  }
}

}  // namespace qkgeom::thrust_kernels
