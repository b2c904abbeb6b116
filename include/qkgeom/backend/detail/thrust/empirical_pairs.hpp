// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/backend/detail/thrust/pair_slices.hpp"

namespace qkgeom::thrust_kernels {

/// Computes score(key, query) = centred key . query, summed in F.
template <class T, class F>
struct key_scores {
  const T* q;
  index_t row_stride;
  const index_t* query;  ///< (queries) rows of q
  index_t queries, d;
  const double* y;     ///< (n, d) centred keys
  const index_t* key;  ///< (keys) rows of y
  F* score;            ///< (keys, queries)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t k = key[item / queries];
    const T* const row = q + query[item % queries] * row_stride;
    F sum = 0;
    for (index_t c = 0; c < d; ++c) sum += static_cast<F>(y[k * d + c]) * static_cast<F>(row[c]);
    score[item] = sum;
  }
};

/// A pair function: 4 p (1 - p), where p is the share of queries that score one key above the other; a tie counts 1/2.
template <class F>
struct observed_function {
  static constexpr int values = 1;
  const F* score;
  index_t queries;
  QKGEOM_HD void operator()(index_t a, index_t b, bool, double* out) const {
    std::int64_t wins = 0;
    for (index_t i = 0; i < queries; ++i) {
      const F x = score[b * queries + i], y = score[a * queries + i];
      wins += (x > y) + (x >= y);
    }
    const double share = static_cast<double>(wins) / (2.0 * static_cast<double>(queries));
    out[0] = 4.0 * share * (1.0 - share);
  }
};

/// Adds the sums of one query bucket, over the groups whose scores fit the memory at a time.
template <class F, class Device, class T, memory_space S>
void add_observed_bucket(const Device& device, const device_keys<Device>& groups, const tensor_view<const T, S>& q,
                         const empirical_problem& problem, index_t bucket, const double* y, pair_sums& to) {
  constexpr index_t memory_of_scores = index_t{1} << 25;
  const auto& scores = problem.distributions[bucket];
  const auto n = static_cast<index_t>(problem.query_rows[bucket].size());
  const auto ranges = ranges_of(groups.host, scores);
  if (n < 2) return;
  const auto query = device.copy(problem.query_rows[bucket]);
  for (std::size_t first = 0; first < ranges.size();) {
    std::vector<index_t> keys;
    std::vector<group_range> batch;
    std::size_t last = first;
    for (; last < ranges.size(); ++last) {
      const auto& r = ranges[last];
      if (!batch.empty() && (static_cast<index_t>(keys.size()) + r.count) * n > memory_of_scores) break;
      batch.push_back({static_cast<index_t>(keys.size()), r.count, r.group});
      for (index_t i = 0; i < r.count; ++i) keys.push_back(r.first + i);
    }
    const auto on_keys = device.copy(keys);
    const auto score = device.template make<F>(on_keys.size() * n);
    device.each(score.size(), key_scores<T, F>{.q = q.data + problem.query_head * q.head_stride,
                                               .row_stride = q.row_stride,
                                               .query = query.data(),
                                               .queries = n,
                                               .d = q.dim,
                                               .y = y,
                                               .key = on_keys.data(),
                                               .score = score.data()});
    const auto sums = sum_ranges(device, groups, batch, scores, observed_function<F>{score.data(), n},
                                 backend::no_weight{}, {}, [](index_t, const std::vector<double>&) {});
    for (std::size_t r = 0; r < batch.size(); ++r) {
      const auto at = to.at(bucket, batch[r].group);
      to.sum[at] = sums[r].sum[0];
      to.weight[at] = sums[r].weight;
      to.pairs[at] = sums[r].pairs;
    }
    first = last;
  }
}

template <class Device, class T, memory_space S>
std::vector<pair_sums> empirical_pairs(const Device& device, const tensor_view<const T, S>& q,
                                       const tensor_view<const T, S>& k, const keys_by_document& groups,
                                       const std::vector<empirical_problem>& problems, pair_precision precision) {
  std::vector<pair_sums> results;
  for (const auto& p : problems) results.push_back(backend::zero_sums(groups, p.distributions.size()));
  if (groups.groups() <= 0) return results;
  const bool f32 = precision == pair_precision::f32 && f32_holds(device, q) && f32_holds(device, k);
  const device_keys<Device> device_groups(device, groups);
  for (std::size_t p = 0; p < problems.size(); ++p) {
    const auto& problem = problems[p];
    const auto y = device_groups.centred(device, k, problem.key_head, 1, backend::key_centre::on_grid);
    for (index_t bucket = 0; bucket < static_cast<index_t>(problem.distributions.size()); ++bucket)
      if (f32)
        add_observed_bucket<float>(device, device_groups, q, problem, bucket, y.data(), results[p]);
      else
        add_observed_bucket<double>(device, device_groups, q, problem, bucket, y.data(), results[p]);
  }
  device_groups.require_finite();
  return results;
}

}  // namespace qkgeom::thrust_kernels
