// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "qkgeom/plasticity/pair_terms.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// Errors that drawing pairs adds to the means of `summarize` over a `sampled` profile: 0 where all pairs were used.
struct summary_sampling_errors {
  double overall = 0, first20 = 0, last20 = 0, drop = 0;
};

/// Which key of a pair the model lets win, and whether the bias of the rotation says the same (4.6: a positive
/// bias_strength favours later keys).
struct later_key_summary {
  double bias_strength = 0;
  estimate later_wins;           ///< mean P(later key wins) over the query buckets, weighted as in `summarize`
  estimate favoured_wins;        ///< the same of the key that the bias favours; null without a bias
  estimate agreeing_share;       ///< share of the query buckets, by weight, where that is above 1/2
  std::optional<bool> agrees{};  ///< whether `favoured_wins` is above 1/2
};

namespace detail {

/// Draws are independent between buckets.
inline double region_sampling_error(const plasticity_profile_result& p, double low, double high, bucket_weight by) {
  double square = 0, weight = 0;
  for (const auto& b : p.buckets) {
    if (std::isnan(b.plasticity) || b.middle() < low || b.middle() >= high) continue;
    const double w =
        by == bucket_weight::queries ? static_cast<double>(b.queries) : static_cast<double>(b.end - b.start);
    square += w * w * b.sampling_error * b.sampling_error;
    weight += w;
  }
  return weight > 0 ? std::sqrt(square) / weight : std::numeric_limits<double>::quiet_NaN();
}

/// Share of the buckets whose mean, without document `left_out` if that is >= 0, is above 1/2 (`above`) or below.
inline double share_beyond_half(const plasticity_profile_result& p, bool above, index_t left_out, bucket_weight by,
                                const std::vector<std::pair<double, double>>& totals) {
  double share = 0, weight = 0;
  for (std::size_t i = 0; i < p.buckets.size(); ++i) {
    const auto& b = p.buckets[i];
    if (std::isnan(b.plasticity)) continue;
    auto [sum, count] = totals[i];
    if (left_out >= 0) {
      sum -= b.document_sum[left_out];
      count -= b.document_weight[left_out];
    }
    if (!(count > 0)) continue;
    const double w =
        by == bucket_weight::queries ? static_cast<double>(b.queries) : static_cast<double>(b.end - b.start);
    share += w * (above ? sum > 0.5 * count : sum < 0.5 * count);
    weight += w;
  }
  return weight > 0 ? share / weight : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace detail

/// `context_length` in tokens.
inline summary_sampling_errors sampling_errors(const plasticity_profile_result& p, index_t context_length,
                                               bucket_weight by = bucket_weight::queries) {
  const double L = static_cast<double>(context_length);
  const double first = detail::region_sampling_error(p, 0, 0.2 * L, by),
               last = detail::region_sampling_error(p, 0.8 * L, L + 1, by);
  return {detail::region_sampling_error(p, 0, L + 1, by), first, last, std::hypot(first, last)};
}

/// From a profile with terms. Throws if it has none.
inline later_key_summary later_keys(const plasticity_profile_result& profile, double bias_strength,
                                    index_t context_length, bucket_weight by = bucket_weight::queries) {
  const auto p = term_profile(profile, pair_term::later_wins);
  later_key_summary s;
  s.bias_strength = bias_strength;
  s.later_wins = summarize(p, context_length, by).overall;
  if (bias_strength == 0 || std::isnan(bias_strength) || std::isnan(s.later_wins.value)) return s;
  const bool above = bias_strength > 0;
  s.favoured_wins = {above ? s.later_wins.value : 1 - s.later_wins.value, s.later_wins.error};
  s.agrees = s.favoured_wins.value > 0.5;
  const auto totals = detail::bucket_totals(p);
  s.agreeing_share = detail::jackknife(p, {{0, std::numeric_limits<double>::infinity()}},
                                       [&](index_t e) { return detail::share_beyond_half(p, above, e, by, totals); });
  return s;
}

/// Of a head's headline profile.
inline later_key_summary later_keys(const head_report& head, index_t context_length) {
  require(!head.profiles.empty(), "later_keys: layer ", head.layer, " head ", head.q_head, " has no profile");
  return later_keys(head.profiles[0], head.rotation.bias.strength, context_length);
}

}  // namespace qkgeom
