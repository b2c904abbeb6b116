// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/thrust_pairs.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::thrust_kernels {

/// The pair sums of one query head, law by law.
template <class Machine>
class problem_sums {
 public:
  problem_sums(const Machine& on, const device_groups<Machine>& groups, const pair_problem& problem,
               const pair_request& request, const double* centred, index_t d, pair_sums& to)
      : on_(on), groups_(groups), problem_(problem), request_(request), y_(centred), d_(d), to_(to) {}

  /// Plasticity of all pairs.
  template <class F, class Weight>
  void add_plasticity(const Weight& weight) {
    for_each_law([&](index_t l, const score_law& law, const std::vector<group_range>& ranges) {
      const law_keys<Machine, F> keys(on_, law, problem_.reflector, y_, groups_.n, d_);
      const auto take_heat = [&](index_t, const std::vector<double>& heat) {
        for (std::size_t c = 0; c < to_.heatmap_sum.size(); ++c) {
          to_.heatmap_weight[c] += heat[2 * c];
          to_.heatmap_sum[c] += heat[2 * c + 1];
        }
      };
      const auto sums = sum_ranges(on_, groups_, ranges, law, keys.terms(), weight, cells(), take_heat);
      for (std::size_t r = 0; r < ranges.size(); ++r) {
        const auto at = to_.at(l, ranges[r].group);
        to_.sum[at] = sums[r].sum[0];
        to_.weight[at] = sums[r].weight;
        to_.pairs[at] = sums[r].pairs;
      }
    });
  }

  /// What stands behind the plasticity of all pairs. Memory on the host: a heatmap of parts a group, if asked for.
  template <class Weight>
  void add_parts(const Weight& weight) {
    to_.part_sum.assign(to_.sum.size() * pair_parts, 0.0);
    start_cells();
    for_each_law([&](index_t l, const score_law& law, const std::vector<group_range>& ranges) {
      const part_keys<Machine> keys(on_, law, problem_.reflector, y_, groups_.n, d_);
      const auto take_heat = [&](index_t group, const std::vector<double>& heat) {
        auto& cell = group_cells_[static_cast<std::size_t>(group)];
        for (std::size_t c = 0; c < heat.size(); ++c) cell[c] += heat[c];
      };
      const auto sums = sum_ranges(on_, groups_, ranges, law, keys.terms(), weight, cells(), take_heat);
      for (std::size_t r = 0; r < ranges.size(); ++r)
        std::copy(sums[r].sum + 1, sums[r].sum + part_terms::values,
                  to_.part_sum.begin() + static_cast<index_t>(to_.at(l, ranges[r].group)) * pair_parts);
    });
    if (request_.heatmap_cell > 0) to_.cells = folded();
  }

  /// Drawn pairs in place of all, `number` being the problem's.
  void add_drawn(index_t number) {
    to_.drawn.assign(to_.sum.size(), 0);
    to_.square.assign(to_.sum.size(), 0.0);
    if (request_.parts) to_.part_sum.assign(to_.sum.size() * pair_parts, 0.0);
    start_cells();
    for_each_law([&](index_t l, const score_law& law, const std::vector<group_range>& ranges) {
      add_drawn_of_law(l, law, ranges, backend::draw_pairs(groups_.host, law, request_.sample, number, l));
    });
    if (request_.heatmap_cell == 0) return;
    auto parts = folded();
    to_.heatmap_weight = parts.weight;
    for (std::size_t c = 0; c < to_.heatmap_sum.size(); ++c) to_.heatmap_sum[c] = parts.sum[c * heatmap_parts::values];
    if (request_.parts) to_.cells = std::move(parts);
  }

 private:
  backend::heatmap_cells cells() const { return backend::heatmap_cells::of(request_.heatmap_cell, to_.heatmap_width); }

  template <class Each>
  void for_each_law(const Each& each) const {
    for (std::size_t l = 0; l < problem_.laws.size(); ++l) {
      const auto& law = problem_.laws[l];
      if (law.empty()) continue;
      const auto ranges = ranges_of(groups_.host, law);
      if (!ranges.empty()) each(static_cast<index_t>(l), law, ranges);
    }
  }

  void start_cells() {
    const auto entries = to_.heatmap_sum.size() * backend::cell_stride;
    group_cells_.assign(entries > 0 ? static_cast<std::size_t>(groups_.host.groups()) : 0,
                        std::vector<double>(entries));
  }
  heatmap_parts folded() const {
    auto parts = blank_cells(to_.heatmap_sum.size());
    for (const auto& cell : group_cells_) backend::fold(cell, parts);
    return parts;
  }

  /// The values of the pairs are made on the device; there are few, so they are added up on the host.
  void add_drawn_of_law(index_t l, const score_law& law, const std::vector<group_range>& ranges,
                        const backend::law_draws& draws) {
    constexpr auto stride = static_cast<std::size_t>(part_terms::values);
    std::vector<index_t> left, right, end;
    for (const auto& r : ranges) {
      const auto take = [&](index_t i, index_t j) {
        left.push_back(r.first + i);
        right.push_back(r.first + j);
      };
      if (draws.all) {
        for (index_t j = 1; j < r.count; ++j)
          for (index_t i = 0; i < j; ++i) take(i, j);
      } else {
        for (auto n = draws.offset[static_cast<std::size_t>(r.group)];
             n < draws.offset[static_cast<std::size_t>(r.group) + 1]; ++n)
          take(draws.pairs[static_cast<std::size_t>(n)].i, draws.pairs[static_cast<std::size_t>(n)].j);
      }
      end.push_back(static_cast<index_t>(left.size()));
    }
    const part_keys<Machine> keys(on_, law, problem_.reflector, y_, groups_.n, d_);
    const auto n = static_cast<index_t>(left.size());
    const auto on_left = on_.copy(left), on_right = on_.copy(right);
    const auto out = on_.template make<double>(n * part_terms::values);
    on_.each(n, listed_pairs<part_terms>{keys.terms(), on_left.data(), on_right.data(), groups_.position.data(),
                                         out.data()});
    const auto value = out.host(n * part_terms::values);
    std::size_t p = 0;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const auto group = ranges[r].group;
      const auto at = to_.at(l, group);
      to_.pairs[at] = ranges[r].count * (ranges[r].count - 1) / 2;
      for (; p < static_cast<std::size_t>(end[r]); ++p) {
        const double* const x = value.data() + p * stride;
        const double w = draws.weight;
        to_.sum[at] += w * x[0];
        to_.weight[at] += w;
        to_.square[at] += w * x[0] * x[0];
        to_.drawn[at] += draws.all ? 0 : 1;
        for (std::size_t v = 1; v < stride && request_.parts; ++v) to_.part_sum[at * pair_parts + v - 1] += w * x[v];
        const auto* t = groups_.host.position.data();
        const index_t cell =
            request_.heatmap_cell > 0 ? cells().cell_of(cells().place(t[left[p]], t[right[p]]), law.tau) : -1;
        if (cell < 0) continue;
        double* const to = group_cells_[static_cast<std::size_t>(group)].data() +
                           static_cast<std::size_t>(cell) * backend::cell_stride;
        to[0] += w;
        for (std::size_t v = 0; v < stride; ++v) to[1 + v] += w * x[v];
      }
    }
  }

  const Machine& on_;
  const device_groups<Machine>& groups_;
  const pair_problem& problem_;
  const pair_request& request_;
  const double* y_;
  index_t d_;
  pair_sums& to_;
  std::vector<std::vector<double>> group_cells_;  ///< (groups) by cell, over all laws
};

/// See cpu_context::gaussian_pairs. `weight` stands for request.weight where it is given.
template <class Machine, class T, memory_space S, class Weight>
std::vector<pair_sums> gaussian_pairs(const Machine& on, const tensor_view<const T, S>& k, const key_groups& groups,
                                      const std::vector<pair_problem>& problems, const pair_request& request,
                                      const Weight& weight) {
  const bool sampled = request.sample.pairs > 0,
             f64 = request.precision.value_or(usual_precision<T>) == pair_precision::f64;
  require(!sampled || !Weight::given, "gaussian_pairs: drawn pairs count 1 each, but a weight was given too");
  auto results = backend::empty_sums(groups, problems, request);
  if (groups.groups() <= 0) return results;
  const device_groups<Machine> on_groups(on, groups);
  std::unique_ptr<qkgeom::buffer<double, typename Machine::memory_type>> y;
  index_t key_head = -1;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    if (problems[p].key_head != key_head || !y) {
      key_head = problems[p].key_head;
      y = std::make_unique<qkgeom::buffer<double, typename Machine::memory_type>>(on_groups.centred(on, k, key_head));
    }
    problem_sums<Machine> sums(on, on_groups, problems[p], request, y->data(), k.dim, results[p]);
    if (sampled) {
      sums.add_drawn(static_cast<index_t>(p));
      continue;
    }
    if (f64)
      sums.template add_plasticity<double>(weight);
    else
      sums.template add_plasticity<float>(weight);
    if (request.parts) sums.add_parts(weight);
  }
  return results;
}

}  // namespace qkgeom::thrust_kernels
