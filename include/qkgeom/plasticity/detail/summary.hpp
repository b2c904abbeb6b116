// SPDX-License-Identifier: MIT
#pragma once

#include <limits>

#include "qkgeom/plasticity/summary.hpp"

namespace qkgeom {

QKGEOM_INLINE profile_means::profile_means(const plasticity_profile_result& profile, bucket_weight by)
    : profile_(&profile), by_(by) {
  for (const auto& b : profile.buckets) {
    double sum = 0, weight = 0;
    for (std::size_t e = 0; e < b.document_sum.size(); ++e) {
      sum += b.document_sum[e];
      weight += b.document_weight[e];
    }
    totals_.emplace_back(sum, weight);
  }
}

QKGEOM_INLINE double profile_means::mean(token_range range, index_t left_out) const {
  double sum = 0, weight = 0;
  for (std::size_t b = 0; b < profile_->buckets.size(); ++b) {
    const auto& bucket = profile_->buckets[b];
    if (std::isnan(bucket.plasticity) || bucket.middle() < range.first || bucket.middle() >= range.second) continue;
    double value = bucket.plasticity;
    if (left_out >= 0 && bucket.document_weight[left_out] > 0) {
      const double rest = totals_[b].second - bucket.document_weight[left_out];
      if (!(rest > 0)) continue;
      value = (totals_[b].first - bucket.document_sum[left_out]) / rest;
    }
    const double w = weight_of(bucket);
    sum += w * value;
    weight += w;
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
}

QKGEOM_INLINE std::array<double, 4> profile_means::summary(index_t context_length, index_t left_out) const {
  const auto ranges = summary_ranges(context_length);
  const double first = mean(ranges[1][0], left_out), last = mean(ranges[2][0], left_out);
  return {mean(ranges[0][0], left_out), first, last, first - last};
}

QKGEOM_INLINE bool profile_means::has_pairs(std::size_t document, const std::vector<token_range>& ranges) const {
  for (const auto& b : profile_->buckets)
    for (const auto& [low, high] : ranges)
      if (!std::isnan(b.plasticity) && b.document_weight[document] > 0 && b.middle() >= low && b.middle() < high)
        return true;
  return false;
}

QKGEOM_INLINE estimate profile_means::jackknife(const std::vector<token_range>& ranges,
                                                const std::function<double(index_t)>& value) const {
  const double whole = value(index_t{-1});
  if (std::isnan(whole)) return {};
  std::vector<double> without;
  for (std::size_t e = 0; e < profile_->documents.size(); ++e)
    if (has_pairs(e, ranges)) without.push_back(value(static_cast<index_t>(e)));
  return qkgeom::jackknife(whole, without);
}

QKGEOM_INLINE profile_summary summarize(const plasticity_profile_result& p, index_t context_length, bucket_weight by) {
  require(context_length > 0, "summarize: context_length must be at least 1 token, not ", context_length);
  const profile_means means(p, by);
  const auto ranges = summary_ranges(context_length);
  profile_summary s;
  estimate* const numbers[] = {&s.overall, &s.first20, &s.last20, &s.drop};
  for (std::size_t i = 0; i < 4; ++i)
    *numbers[i] = means.jackknife(ranges[i], [&](index_t e) { return means.summary(context_length, e)[i]; });
  for (const auto& b : p.buckets) s.pairs += b.pairs;
  return s;
}

QKGEOM_INLINE std::vector<bin_mean> bin_means(const plasticity_profile_result& p, const std::vector<double>& edges,
                                              bucket_weight by) {
  const profile_means means(p, by);
  std::vector<bin_mean> bins;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    const token_range range{edges[i], edges[i + 1]};
    bins.push_back(
        {range.first, range.second, means.jackknife({range}, [&](index_t e) { return means.mean(range, e); })});
  }
  return bins;
}

QKGEOM_INLINE std::vector<double> equal_bins(index_t context_length, int n) {
  std::vector<double> edges;
  for (int i = 0; i <= n; ++i) edges.push_back(static_cast<double>(context_length) * i / n);
  return edges;
}

QKGEOM_INLINE std::vector<double> length_bins(index_t context_length) {
  std::vector<double> edges{0};
  for (int fraction = 16; fraction >= 1; fraction /= 2) edges.push_back(static_cast<double>(context_length) / fraction);
  return edges;
}

QKGEOM_INLINE std::array<std::vector<token_range>, 4> summary_ranges(index_t context_length) {
  const double L = static_cast<double>(context_length);
  const token_range all{0, L + 1}, first{0, 0.2 * L}, last{0.8 * L, L + 1};
  return {{{all}, {first}, {last}, {first, last}}};
}

QKGEOM_INLINE std::pair<index_t, index_t> buckets_between(const bucket_edges& buckets, double from, double to) {
  const double length = buckets.count() > 0 ? static_cast<double>(buckets.edges().back()) : 0;
  std::pair<index_t, index_t> range{0, 0};
  for (index_t b = 0; b < buckets.count(); ++b) {
    range.first += buckets.middle(b) < from * length;
    range.second += buckets.middle(b) < to * length;
  }
  return range;
}

}  // namespace qkgeom
