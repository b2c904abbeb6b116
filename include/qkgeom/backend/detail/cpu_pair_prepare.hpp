// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "qkgeom/backend/detail/simd.hpp"
#include "qkgeom/core/pair_problem.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::cpu {

template <class F>
using rows_matrix = Eigen::Matrix<F, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Ranks [begin, end) of the keys of one group that a law admits.
struct rank_range {
  index_t begin = 0, end = 0;
  index_t size() const { return std::max<index_t>(0, end - begin); }
  std::int64_t pairs() const { return size() * (size() - 1) / 2; }
};

inline rank_range admissible(const key_groups& groups, index_t group, const score_law& law) {
  const auto first = groups.position.begin() + groups.offset[static_cast<std::size_t>(group)];
  const auto last = groups.position.begin() + groups.offset[static_cast<std::size_t>(group) + 1];
  const auto begin = std::partition_point(first, last, [&](std::int32_t t) { return !(t > law.after); });
  const auto end = std::lower_bound(first, last, law.before);
  return {begin - first, end - first};
}

/// Keys of one group minus their mean, which no difference sees: it keeps f32 exact for keys with a large common part.
template <class F, class T>
void centred_keys(thread_pool& pool, const matrix_view<const T>& k, const key_groups& groups, index_t group, F* out) {
  constexpr index_t block = 256;
  const index_t begin = groups.offset[static_cast<std::size_t>(group)], n = groups.offset[static_cast<std::size_t>(group) + 1] - begin;
  const index_t d = k.cols, blocks = (n + block - 1) / block;
  const auto row_of = [&](index_t i) { return k.row(groups.row[static_cast<std::size_t>(begin + i)]); };
  std::vector<double> part(static_cast<std::size_t>(blocks * d)), mean(static_cast<std::size_t>(d));
  pool.for_each(blocks, [&](index_t b, int) {
    double* const sum = part.data() + b * d;
    for (index_t i = b * block; i < std::min(n, (b + 1) * block); ++i) {
      const T* const row = row_of(i);
      for (index_t c = 0; c < d; ++c) sum[c] += static_cast<double>(row[c]);
    }
  });
  for (index_t b = 0; b < blocks; ++b)
    for (index_t c = 0; c < d; ++c) mean[static_cast<std::size_t>(c)] += part[static_cast<std::size_t>(b * d + c)] / static_cast<double>(n);
  pool.for_each(blocks, [&](index_t b, int) {
    for (index_t i = b * block; i < std::min(n, (b + 1) * block); ++i) {
      const T* const row = row_of(i);
      for (index_t c = 0; c < d; ++c) out[i * d + c] = static_cast<F>(static_cast<double>(row[c]) - mean[static_cast<std::size_t>(c)]);
    }
  });
}

/// rows (n, d) times H = I - 2uu'.
template <class F>
void reflect_rows(F* rows, index_t n, index_t d, const std::vector<double>& reflector) {
  if (reflector.empty()) return;
  std::vector<F> u(reflector.begin(), reflector.end());
  for (index_t i = 0; i < n; ++i, rows += d) {
    F along = 0;
    for (index_t c = 0; c < d; ++c) along += rows[c] * u[static_cast<std::size_t>(c)];
    along *= 2;
    for (index_t c = 0; c < d; ++c) rows[c] -= along * u[static_cast<std::size_t>(c)];
  }
}

/// Power of two near 1 / sqrt(mean_square), so that scaled values are of order 1 without rounding.
inline double unit_scale(double mean_square) {
  if (!(mean_square > 0) || !std::isfinite(mean_square)) return 1.0;
  return std::ldexp(1.0, -std::ilogb(mean_square) / 2);
}

/// Where a task adds what it found: sums per law and group are the task's own, the heatmap is private to the task.
struct pair_sink {
  pair_sums* sums;
  const key_groups* groups;
  const pair_request* request;
  std::vector<double> heat_sum, heat_weight;

  pair_sink(pair_sums& s, const key_groups& g, const pair_request& r)
      : sums(&s), groups(&g), request(&r), heat_sum(s.heatmap_sum.size()), heat_weight(s.heatmap_sum.size()) {}

  /// Simple: sums alone are wanted and every pair counts 1.
  bool simple() const { return !request->weight && request->heatmap_cell == 0; }

  /// One pair of ranks i < j of `group` under `law`, of the `range` that the law admits; returns its weight.
  double add(const score_law& law, index_t group, const rank_range& range, index_t i, index_t j, double plasticity) {
    const double weight = request->weight ? request->weight(i - range.begin, j - range.begin, range.size()) : 1.0;
    if (request->heatmap_cell > 0) {
      const auto* t = &groups->position[static_cast<std::size_t>(groups->offset[static_cast<std::size_t>(group)])];
      const double cell = static_cast<double>(request->heatmap_cell);
      const index_t across = std::abs(t[j] - t[i]) / request->heatmap_cell;
      const auto back = static_cast<index_t>(std::floor((law.tau - 0.5 * (double{1.0} * t[i] + t[j])) / cell));
      if (across < sums->heatmap_width && back >= 0 && back < sums->heatmap_width) {
        const auto at = static_cast<std::size_t>(across * sums->heatmap_width + back);
        heat_sum[at] += weight * plasticity;
        heat_weight[at] += weight;
      }
    }
    return weight;
  }
};

}  // namespace qkgeom::cpu
