// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/backend/detail/thrust/drawn.hpp"
#include "qkgeom/backend/detail/thrust/pair_slices.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::thrust_kernels {

/// The pair sums of one problem, one query bucket at a time.
template <class Device>
class problem_sums {
 public:
  problem_sums(const Device& device, const device_keys<Device>& groups, const pair_problem& problem,
               const pair_request& request, const double* centred, index_t d, pair_sums& to)
      : device_(device), groups_(groups), problem_(problem), request_(request), y_(centred), d_(d), to_(to) {}

  template <class F, class Weight>
  void add_plasticity(const Weight& weight) {
    for_each_bucket([&](index_t bucket, const score_distribution& scores, const std::vector<group_range>& ranges) {
      const plasticity_keys<Device, F> keys(device_, scores, problem_.reflector, y_, groups_.n, d_);
      const auto take_heat = [&](index_t, const std::vector<double>& heat) {
        for (std::size_t c = 0; c < to_.heatmap_sum.size(); ++c) {
          to_.heatmap_weight[c] += heat[2 * c];
          to_.heatmap_sum[c] += heat[2 * c + 1];
        }
      };
      const auto sums = sum_ranges(device_, groups_, ranges, scores, keys.function(), weight, cells(), take_heat);
      for (std::size_t r = 0; r < ranges.size(); ++r) {
        const auto at = to_.at(bucket, ranges[r].group);
        to_.sum[at] = sums[r].sum[0];
        to_.weight[at] = sums[r].weight;
        to_.pairs[at] = sums[r].pairs;
      }
    });
  }

  /// Adds the terms of all pairs. With a heatmap, the host holds cells of terms per group.
  template <class Weight>
  void add_terms(const Weight& weight) {
    to_.term_sum.assign(to_.sum.size() * pair_terms, 0.0);
    start_cells();
    for_each_bucket([&](index_t bucket, const score_distribution& scores, const std::vector<group_range>& ranges) {
      const term_keys<Device> keys(device_, scores, problem_.reflector, y_, groups_.n, d_);
      const auto take_heat = [&](index_t group, const std::vector<double>& heat) {
        auto& cell = group_cells_[group];
        for (std::size_t c = 0; c < heat.size(); ++c) cell[c] += heat[c];
      };
      const auto sums = sum_ranges(device_, groups_, ranges, scores, keys.function(), weight, cells(), take_heat);
      for (std::size_t r = 0; r < ranges.size(); ++r)
        std::copy(sums[r].sum + 1, sums[r].sum + term_function::values,
                  to_.term_sum.begin() + static_cast<index_t>(to_.at(bucket, ranges[r].group)) * pair_terms);
    });
    if (request_.heatmap_cell > 0) to_.cells = backend::folded(group_cells_, to_.heatmap_sum.size());
  }

 private:
  backend::heatmap_cells cells() const { return backend::heatmap_cells::of(request_.heatmap_cell, to_.heatmap_width); }

  template <class Each>
  void for_each_bucket(const Each& each) const {
    for (std::size_t bucket = 0; bucket < problem_.distributions.size(); ++bucket) {
      const auto& scores = problem_.distributions[bucket];
      if (scores.empty()) continue;
      const auto ranges = ranges_of(groups_.host, scores);
      if (!ranges.empty()) each(static_cast<index_t>(bucket), scores, ranges);
    }
  }

  void start_cells() {
    const auto entries = to_.heatmap_sum.size() * backend::cell_stride;
    group_cells_.assign(entries > 0 ? groups_.host.groups() : 0, std::vector<double>(entries));
  }

  const Device& device_;
  const device_keys<Device>& groups_;
  const pair_problem& problem_;
  const pair_request& request_;
  const double* y_;
  index_t d_;
  pair_sums& to_;
  std::vector<std::vector<double>> group_cells_;  ///< (groups) by cell, over all buckets
};

/// See cpu_context::gaussian_pairs. `weight` replaces request.weight.
template <class Device, class T, memory_space S, class Weight>
std::vector<pair_sums> gaussian_pairs(const Device& device, const tensor_view<const T, S>& k,
                                      const keys_by_document& groups, const std::vector<pair_problem>& problems,
                                      const pair_request& request, const Weight& weight) {
  const bool sampled = request.sample.pairs > 0,
             f64 = request.precision.value_or(usual_precision<T>) == pair_precision::f64;
  require(!sampled || !Weight::given, "gaussian_pairs: drawn pairs count 1 each, but a weight was given too");
  if (sampled) {
    const multiply_by_loops multiply;
    constexpr std::size_t scratch = std::size_t{1} << 26;
    return drawn_pairs<Device, multiply_by_loops, T, S>(device, multiply, scratch, k, groups, problems, request)();
  }
  auto results = backend::empty_sums(groups, problems, request);
  if (groups.groups() <= 0) return results;
  const device_keys<Device> device_groups(device, groups);
  keys_of_heads<Device, T, S> keys(device, k, device_groups);
  for (std::size_t p = 0; p < problems.size(); ++p) {
    problem_sums<Device> sums(device, device_groups, problems[p], request, keys(problems[p].key_head), k.dim,
                              results[p]);
    if (f64)
      sums.template add_plasticity<double>(weight);
    else
      sums.template add_plasticity<float>(weight);
    if (request.terms) sums.add_terms(weight);
  }
  device_groups.require_finite();
  return results;
}

}  // namespace qkgeom::thrust_kernels
