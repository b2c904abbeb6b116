// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/backend/detail/thrust/pairs.hpp"

namespace qkgeom::thrust_kernels {

/// score(key, query) = centred key . query, in F.
template <class T, class F>
struct key_scores {
  const T* q;
  index_t row_stride;
  const index_t* query;
  index_t queries, d;
  const double* y;
  const index_t* key;
  F* score;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t k = key[item / queries];
    const T* const row = q + query[item % queries] * row_stride;
    F sum = 0;
    for (index_t c = 0; c < d; ++c) sum += static_cast<F>(y[k * d + c]) * static_cast<F>(row[c]);
    score[item] = sum;
  }
};

/// 4 p (1 - p), p the share of queries that score one key above the other, ties counting one half.
template <class F>
struct share_of_pair {
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

/// Sums of one distribution over as many groups at a time as their scores leave room for.
template <class F, class Device, class T>
void add_empirical_distribution(const Device& on, const device_keys<Device>& groups, const T* q, index_t row_stride,
                                const std::vector<index_t>& rows, const score_distribution& distribution, index_t l,
                                const double* y, index_t d, pair_sums& to) {
  constexpr index_t memory_of_scores = index_t{1} << 25;
  const auto n = static_cast<index_t>(rows.size());
  const auto ranges = ranges_of(groups.host, distribution);
  if (n < 2) return;
  const auto query = on.copy(rows);
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
    const auto on_keys = on.copy(keys);
    const auto score = on.template make<F>(on_keys.size() * n);
    on.each(score.size(), key_scores<T, F>{q, row_stride, query.data(), n, d, y, on_keys.data(), score.data()});
    const auto sums = sum_ranges(on, groups, batch, distribution, share_of_pair<F>{score.data(), n}, no_weight{}, {},
                                 [](index_t, const std::vector<double>&) {});
    for (std::size_t r = 0; r < batch.size(); ++r) {
      const auto at = to.at(l, batch[r].group);
      to.sum[at] = sums[r].sum[0];
      to.weight[at] = sums[r].weight;
      to.pairs[at] = sums[r].pairs;
    }
    first = last;
  }
}

/// See cpu_context::empirical_pairs.
template <class Device, class T, memory_space S>
std::vector<pair_sums> empirical_pairs(const Device& on, const tensor_view<const T, S>& q,
                                       const tensor_view<const T, S>& k, const keys_by_document& groups,
                                       const std::vector<empirical_problem>& problems) {
  std::vector<pair_sums> results;
  for (const auto& p : problems) results.push_back(backend::zero_sums(groups, p.distributions.size()));
  if (groups.groups() <= 0) return results;
  const device_keys<Device> on_groups(on, groups);
  for (std::size_t p = 0; p < problems.size(); ++p) {
    const auto& problem = problems[p];
    const auto y = on_groups.centred(on, k, problem.key_head, backend::key_centre::on_grid);
    for (std::size_t l = 0; l < problem.distributions.size(); ++l)
      add_empirical_distribution<compute_t<T>>(on, on_groups, q.data + problem.query_head * q.head_stride, q.row_stride,
                                               problem.query_rows[l], problem.distributions[l], static_cast<index_t>(l),
                                               y.data(), k.dim, results[p]);
  }
  on_groups.require_finite();
  return results;
}

}  // namespace qkgeom::thrust_kernels
