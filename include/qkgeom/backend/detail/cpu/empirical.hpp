// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

/// Number of entries with a > b plus the number with a >= b: twice the wins, where a tie counts 1/2.
template <class F>
inline std::int64_t wins_doubled(const F* a, const F* b, index_t n) {
  using mask = typename simd<F>::mask;
  mask count{};
  index_t i = 0;
  for (; i + lanes<F> <= n; i += lanes<F>) {
    const vec<F> x = load(a + i), y = load(b + i);
    count -= (x > y) + (x >= y);
  }
  std::int64_t total = 0;
  for (int l = 0; l < lanes<F>; ++l) total += count[l];
  for (; i < n; ++i) total += (a[i] > b[i]) + (a[i] >= b[i]);
  return total;
}

/// See cpu_context::empirical_pairs: sums of 4 p (1 - p), the plug-in form of (4.7, 4.8), (n - 1) / n of the unbiased
/// one.
template <class F>
std::vector<pair_sums> empirical_pairs(thread_pool& pool, const wide_tensor& q, const wide_tensor& k,
                                       const keys_by_document& groups, const std::vector<empirical_problem>& problems) {
  const index_t d = k.first.cols;
  std::vector<pair_sums> results;
  std::vector<std::pair<std::size_t, std::size_t>> tasks;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    results.push_back(backend::zero_sums(groups, problems[p].distributions.size()));
    for (std::size_t b = 0; b < problems[p].distributions.size(); ++b) tasks.emplace_back(p, b);
  }
  pool.for_each(static_cast<index_t>(tasks.size()), [&](index_t task, int) {
    const auto [p, b] = tasks[task];
    const auto& problem = problems[p];
    const auto& rows = problem.query_rows[b];
    const auto n = static_cast<index_t>(rows.size());
    if (n < 2) return;
    const index_t width = padded<F>(n);
    std::vector<F> queries(d * width), y, scores;  // queries (d, width)
    std::vector<double> wide(d);
    for (index_t i = 0; i < n; ++i) {
      q.head(problem.query_head).read(rows[i], wide.data());
      for (index_t c = 0; c < d; ++c) queries[c * width + i] = static_cast<F>(wide[c]);
    }
    for (index_t g = 0; g < groups.groups(); ++g) {
      const auto range = admissible(groups, g, problem.distributions[b]);
      if (range.size() < 2) continue;
      const index_t keys = groups.offset[g + 1] - groups.offset[g];
      y.resize((keys + block_rows) * d);  // a block may read beyond the last key
      centred_keys(pool, k.head(problem.key_head), groups, g, y.data(), backend::key_centre::on_grid);
      // No GEMM: its order of summation depends on the row's place, and equal keys must tie.
      scores.resize((range.size() + block_rows) * width);
      for (index_t i = 0; i < range.size(); i += block_rows)
        rows_times_lanes(y.data() + (range.begin + i) * d, d, d, queries.data(), width, scores.data() + i * width);
      double sum = 0;
      for (index_t j = 1; j < range.size(); ++j)
        for (index_t i = 0; i < j; ++i) {
          const double share =
              static_cast<double>(wins_doubled(scores.data() + j * width, scores.data() + i * width, n)) /
              (2.0 * static_cast<double>(n));
          sum += 4.0 * share * (1.0 - share);
        }
      const auto at = results[p].at(static_cast<index_t>(b), g);
      results[p].sum[at] = sum;
      results[p].pairs[at] = range.pairs();
      results[p].weight[at] = static_cast<double>(range.pairs());
    }
  });
  return results;
}

}  // namespace qkgeom::cpu
