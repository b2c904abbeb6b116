// SPDX-License-Identifier: MIT
#include "qkgeom/report/model_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qkgeom {

profile_summary mean_over_heads(const std::vector<const plasticity_profile_result*>& profiles, index_t context_length) {
  profile_summary result;
  std::vector<std::int32_t> documents;
  std::vector<profile_means> of_head;
  std::vector<std::array<double, 4>> whole_values;  // (heads)
  for (const auto* p : profiles) {
    of_head.emplace_back(*p);
    whole_values.push_back(of_head.back().summary(context_length));
    documents.insert(documents.end(), p->documents.begin(), p->documents.end());
    for (const auto& b : p->buckets) result.pairs += b.pairs;
  }
  std::sort(documents.begin(), documents.end());
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  const auto means = [](const std::vector<std::array<double, 4>>& values) {
    std::array<double, 4> sum{}, count{};
    for (const auto& v : values)
      for (std::size_t i = 0; i < 4; ++i)
        if (!std::isnan(v[i])) {
          sum[i] += v[i];
          ++count[i];
        }
    for (std::size_t i = 0; i < 4; ++i)
      sum[i] = count[i] > 0 ? sum[i] / count[i] : std::numeric_limits<double>::quiet_NaN();
    return sum;
  };
  std::array<std::vector<double>, 4> without;
  for (const std::int32_t e : documents) {
    if (e < 0) continue;
    auto values = whole_values;
    std::array<bool, 4> changes{};  // the jackknife skips documents that change no head's number
    for (std::size_t h = 0; h < profiles.size(); ++h) {
      const auto& ids = profiles[h]->documents;
      const auto at = std::find(ids.begin(), ids.end(), e);
      if (at == ids.end()) continue;
      values[h] = of_head[h].summary(context_length, at - ids.begin());
      for (std::size_t i = 0; i < 4; ++i) changes[i] |= differs(values[h][i], whole_values[h][i]);
    }
    const auto m = means(values);
    for (std::size_t i = 0; i < 4; ++i)
      if (changes[i]) without[i].push_back(m[i]);
  }
  const auto whole = means(whole_values);
  const std::array<estimate*, 4> into{&result.overall, &result.first20, &result.last20, &result.drop};
  for (std::size_t i = 0; i < 4; ++i) *into[i] = jackknife(whole[i], without[i]);
  return result;
}

profile_summary summarize_heads(const model_report& report, const std::vector<std::size_t>& heads) {
  std::vector<const plasticity_profile_result*> profiles;
  for (const std::size_t i : heads)
    if (!report.heads[i].profiles.empty()) profiles.push_back(&report.heads[i].profiles[0]);
  return mean_over_heads(profiles, report.context_length);
}

std::vector<group_summary> summarize_model(const model_report& report) {
  std::vector<group_summary> groups;
  for (const auto& [name, heads] : head_groups(report.heads)) groups.push_back({summarize_heads(report, heads), name});
  return groups;
}

namespace {

/// Returns the sampling error of the mean over a stretch of the context: draws are independent between buckets.
double sampling_error_in(token_range range, const profile_means& means) {
  double square = 0, weight = 0;
  for (const auto& b : means.profile().buckets) {
    if (std::isnan(b.plasticity) || b.middle() < range.first || b.middle() >= range.second) continue;
    const double w = means.weight_of(b);
    square += w * w * b.sampling_error * b.sampling_error;
    weight += w;
  }
  return weight > 0 ? std::sqrt(square) / weight : std::numeric_limits<double>::quiet_NaN();
}

/// Returns the share of buckets with a mean above 1/2 (`above`) or below, without document `left_out` (-1: with all).
double share_beyond_half(bool above, index_t left_out, const profile_means& means) {
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

}  // namespace

summary_sampling_errors sampling_errors(const plasticity_profile_result& p, index_t context_length, bucket_weight by) {
  const profile_means means(p, by);
  const auto ranges = summary_ranges(context_length);
  const auto error = [&](std::size_t i) { return sampling_error_in(ranges[i][0], means); };
  const double first = error(1), last = error(2);
  return {error(0), first, last, std::hypot(first, last)};
}

later_key_summary later_keys(const plasticity_profile_result& profile, double bias_strength, index_t context_length,
                             bucket_weight by) {
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
                                     [&](index_t e) { return share_beyond_half(above, e, means); });
  return s;
}

later_key_summary later_keys(const head_report& head, index_t context_length) {
  require(!head.profiles.empty(), "later_keys: layer ", head.layer, " head ", head.q_head, " has no profile");
  return later_keys(head.profiles[0], head.rotation.bias.strength, context_length);
}

}  // namespace qkgeom
