// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "qkgeom/core/head.hpp"
#include "qkgeom/stats/interval.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// How much the rows of one side of a head, before the rotary embedding, depend on position. Each document is cut in
/// the middle of its rows; errors are over documents.
struct stationarity {
  estimate shift;   ///< share of variance explained by a shift of the mean between document halves; expectation 0
                    ///< without one
  estimate spread;  ///< log of (total variance of the second half / of the first)
};

/// Measures one side: rows (n, d) ordered by (document, position). Rows before `keep_first` and documents with fewer
/// than 4 other rows do not count. Values are NaN for fewer than two documents. With d_e the difference of the means of
/// document e's halves, `shift` is the mean of d_e.d_f over pairs of different documents, over 4 tr S; content cancels,
/// as documents do not share it.
template <class T>
stationarity stationarity_of(const matrix_view<const T>& x, const vector_view<const std::int32_t>& position,
                             const vector_view<const std::int32_t>& document, index_t keep_first) {
  const index_t d = x.cols;
  std::vector<std::vector<double>> step;  // by document
  std::vector<double> ratio, variance;
  struct half {
    std::vector<double> mean;
    double variance = 0;
  };
  const auto half_of = [&](index_t from, index_t to) {
    half h{std::vector<double>(d), 0};
    const auto n = static_cast<double>(to - from);
    for (index_t i = from; i < to; ++i)
      for (index_t c = 0; c < d; ++c) h.mean[c] += static_cast<double>(x(i, c)) / n;
    for (index_t i = from; i < to; ++i)
      for (index_t c = 0; c < d; ++c) {
        const double off = static_cast<double>(x(i, c)) - h.mean[c];
        h.variance += off * off / (n - 1);
      }
    return h;
  };
  for (index_t from = 0, to = 0; from < x.rows; from = to) {
    while (to < x.rows && document[to] == document[from]) ++to;
    while (from < to && position[from] < keep_first) ++from;
    if (to - from < 4) continue;
    const index_t middle = from + (to - from) / 2;
    auto first = half_of(from, middle), second = half_of(middle, to);
    for (index_t c = 0; c < d; ++c) second.mean[c] -= first.mean[c];
    step.push_back(std::move(second.mean));
    ratio.push_back(std::log(second.variance / first.variance));
    variance.push_back(0.5 * (first.variance + second.variance));
  }
  const auto n = step.size();
  if (n < 2) return {};
  std::vector<double> sum(static_cast<std::size_t>(d)), own(n);
  double squares = 0, total = 0;
  for (std::size_t e = 0; e < n; ++e) {
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += step[e][c], own[e] += step[e][c] * step[e][c];
    squares += own[e];
    total += variance[e];
  }
  // The sum over pairs of different documents is |sum of steps|^2 less each step's square. `e` is left out; n: none.
  const auto shift = [&](std::size_t e) {
    double square = 0;
    for (std::size_t c = 0; c < sum.size(); ++c) {
      const double rest = sum[c] - (e < n ? step[e][c] : 0);
      square += rest * rest;
    }
    const auto count = static_cast<double>(n - (e < n));
    const double own_of_rest = squares - (e < n ? own[e] : 0), variance_of_rest = total - (e < n ? variance[e] : 0);
    return (square - own_of_rest) / (count * (count - 1)) / (4 * variance_of_rest / count);
  };
  std::vector<double> without, log_without;
  double mean = 0;
  for (const double r : ratio) mean += r / static_cast<double>(n);
  for (std::size_t e = 0; e < n && n > 2; ++e) {
    without.push_back(shift(e));
    log_without.push_back((mean * static_cast<double>(n) - ratio[e]) / static_cast<double>(n - 1));
  }
  return {jackknife(shift(n), without), jackknife(mean, log_without)};
}

/// Whether a side depends on position enough to make `what_if` doubtful: shift or spread exceeds these limits, and its
/// 95 % interval excludes 0.
inline constexpr double doubtful_shift = 0.02, doubtful_spread = 0.2;
inline bool is_doubtful(const stationarity& s) {
  const auto beyond = [](const estimate& e, double limit) {
    return std::abs(e.value) > limit && std::abs(e.value) > half_width(e);
  };
  return beyond(s.shift, doubtful_shift) || beyond(s.spread, doubtful_spread);
}

}  // namespace qkgeom
