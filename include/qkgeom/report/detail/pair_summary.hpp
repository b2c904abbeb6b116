// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <limits>

#include "qkgeom/report/pair_summary.hpp"

namespace qkgeom {

namespace detail {

/// Sampling error of the mean over a stretch of the context: draws are independent between buckets.
QKGEOM_INLINE double sampling_error_in(token_range range, const profile_means& means) {
  double square = 0, weight = 0;
  for (const auto& b : means.profile().buckets) {
    if (std::isnan(b.plasticity) || b.middle() < range.first || b.middle() >= range.second) continue;
    const double w = means.weight_of(b);
    square += w * w * b.sampling_error * b.sampling_error;
    weight += w;
  }
  return weight > 0 ? std::sqrt(square) / weight : std::numeric_limits<double>::quiet_NaN();
}

/// Share of the buckets whose mean, without document `left_out` (-1: none), is above 1/2 (`above`) or below.
QKGEOM_INLINE double share_beyond_half(bool above, index_t left_out, const profile_means& means) {
  double share = 0, weight = 0;
  const auto& buckets = means.profile().buckets;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto& b = buckets[i];
    if (std::isnan(b.plasticity)) continue;
    auto [sum, count] = means.totals()[i];
    if (left_out >= 0) {
      sum -= b.document_sum[left_out];
      count -= b.document_weight[left_out];
    }
    if (!(count > 0)) continue;
    const double w = means.weight_of(b);
    share += w * (above ? sum > 0.5 * count : sum < 0.5 * count);
    weight += w;
  }
  return weight > 0 ? share / weight : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace detail

QKGEOM_INLINE summary_sampling_errors sampling_errors(const plasticity_profile_result& p, index_t context_length,
                                                      bucket_weight by) {
  const profile_means means(p, by);
  const auto ranges = summary_ranges(context_length);
  const auto error = [&](std::size_t i) { return detail::sampling_error_in(ranges[i][0], means); };
  const double first = error(1), last = error(2);
  return {error(0), first, last, std::hypot(first, last)};
}

QKGEOM_INLINE later_key_summary later_keys(const plasticity_profile_result& profile, double bias_strength,
                                           index_t context_length, bucket_weight by) {
  const auto p = term_profile(profile, pair_term::later_wins);
  later_key_summary s;
  s.bias_strength = bias_strength;
  s.later_wins = summarize(p, context_length, by).overall;
  if (bias_strength == 0 || std::isnan(bias_strength) || std::isnan(s.later_wins.value)) return s;
  const bool above = bias_strength > 0;
  s.favoured_wins = s.later_wins;
  if (!above) s.favoured_wins.value = 1 - s.later_wins.value;
  s.agrees = s.favoured_wins.value > 0.5;
  const profile_means means(p, by);
  s.agreeing_share = means.jackknife({{0, std::numeric_limits<double>::infinity()}},
                                     [&](index_t e) { return detail::share_beyond_half(above, e, means); });
  return s;
}

}  // namespace qkgeom
