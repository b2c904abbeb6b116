// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// The weight of a query bucket in means over buckets: its number of queries, or its width in tokens.
enum class bucket_weight { queries, width };

/// Aggregates of a profile (4.4.5): means over the query buckets whose middle lies in [0, L), [0, 0.2 L), [0.8 L, L).
struct profile_summary {
  estimate overall, first20, last20, drop;  ///< drop = first20 - last20
  std::int64_t pairs = 0;
};

/// A region of the context, and the mean over the buckets whose middle lies in it; NaN without one.
struct bin_mean {
  double start = 0, end = 0;  ///< tokens
  estimate plasticity;
};

/// Returns the edges of n equal bins over the context: 5 gives quintiles, 10 deciles.
inline std::vector<double> equal_bins(index_t context_length, int n) {
  std::vector<double> edges;
  for (int i = 0; i <= n; ++i) edges.push_back(static_cast<double>(context_length) * i / n);
  return edges;
}

/// Returns the edges 0, L/16, L/8, L/4, L/2, L: 0-8K, 8K-16K, ... at L = 128K.
inline std::vector<double> length_bins(index_t context_length) {
  std::vector<double> edges{0};
  for (int fraction = 16; fraction >= 1; fraction /= 2) edges.push_back(static_cast<double>(context_length) / fraction);
  return edges;
}

/// A stretch of the context, [first, second) tokens.
using token_range = std::pair<double, double>;

/// Returns the stretches that overall, first 20 %, last 20 % and drop average over.
inline std::array<std::vector<token_range>, 4> summary_ranges(index_t context_length) {
  const double L = static_cast<double>(context_length);
  const token_range all{0, L + 1}, first{0, 0.2 * L}, last{0.8 * L, L + 1};
  return {{{all}, {first}, {last}, {first, last}}};
}

/// Means of a profile over all its documents, or without one of them. Keeps a reference to the profile.
class profile_means {
 public:
  explicit profile_means(const plasticity_profile_result& profile, bucket_weight by = bucket_weight::queries)
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

  /// Returns the mean over the buckets whose middle lies in the range; NaN without one. Omits document `left_out`, if
  /// that is not -1.
  double mean(token_range range, index_t left_out = -1) const {
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
  /// Returns overall, first 20 %, last 20 % and drop, as in `summarize`.
  std::array<double, 4> summary(index_t context_length, index_t left_out = -1) const {
    const auto ranges = summary_ranges(context_length);
    const double first = mean(ranges[1][0], left_out), last = mean(ranges[2][0], left_out);
    return {mean(ranges[0][0], left_out), first, last, first - last};
  }
  /// Returns whether a document has pairs in a bucket whose middle lies in one of the ranges.
  bool has_pairs(std::size_t document, const std::vector<token_range>& ranges) const {
    for (const auto& b : profile_->buckets)
      for (const auto& [low, high] : ranges)
        if (!std::isnan(b.plasticity) && b.document_weight[document] > 0 && b.middle() >= low && b.middle() < high)
          return true;
    return false;
  }
  /// Returns value(-1), which depends on the buckets in `ranges`, with the jackknife error of value(e) over the
  /// documents e that have pairs there.
  estimate jackknife(const std::vector<token_range>& ranges, const std::function<double(index_t)>& value) const {
    const double whole = value(index_t{-1});
    if (std::isnan(whole)) return {};
    std::vector<double> without;
    for (std::size_t e = 0; e < profile_->documents.size(); ++e)
      if (has_pairs(e, ranges)) without.push_back(value(static_cast<index_t>(e)));
    return qkgeom::jackknife(whole, without);
  }

  const plasticity_profile_result& profile() const { return *profile_; }
  /// Returns the (buckets) sums and weights of the pairs of all documents.
  const std::vector<std::pair<double, double>>& totals() const { return totals_; }
  double weight_of(const profile_bucket& b) const {
    return static_cast<double>(by_ == bucket_weight::queries ? b.queries : b.end - b.start);
  }

 private:
  const plasticity_profile_result* profile_;
  bucket_weight by_;
  std::vector<std::pair<double, double>> totals_;
};

/// Summarizes a profile: overall, first and last fifth of the context, and their difference, with jackknife errors over
/// documents. `context_length` is L, in tokens. Throws `error` if it is not positive.
inline profile_summary summarize(const plasticity_profile_result& p, index_t context_length,
                                 bucket_weight by = bucket_weight::queries) {
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

/// Returns means over the bins between ascending edges, in tokens.
inline std::vector<bin_mean> bin_means(const plasticity_profile_result& p, const std::vector<double>& edges,
                                       bucket_weight by = bucket_weight::queries) {
  const profile_means means(p, by);
  std::vector<bin_mean> bins;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    const token_range range{edges[i], edges[i + 1]};
    bins.push_back(
        {range.first, range.second, means.jackknife({range}, [&](index_t e) { return means.mean(range, e); })});
  }
  return bins;
}

/// Returns whether two numbers differ; two NaN are the same.
inline bool differs(double a, double b) { return !(a == b || (std::isnan(a) && std::isnan(b))); }

/// A mean over documents: the ratio of their sums to their weights, with the jackknife error over weighted documents.
class document_mean {
 public:
  void add(double sum, double weight) {
    if (!(weight > 0)) return;
    sums_.push_back(sum);
    weights_.push_back(weight);
  }
  std::size_t documents() const { return sums_.size(); }
  double weight() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }
  estimate mean() const { return ratio_of_sums(sums_, weights_); }

 private:
  std::vector<double> sums_, weights_;
};

/// Returns the buckets [first, second) whose middle lies in [from, to) times the context length.
inline std::pair<index_t, index_t> buckets_between(const bucket_edges& buckets, double from, double to) {
  const double length = buckets.count() > 0 ? static_cast<double>(buckets.edges().back()) : 0;
  std::pair<index_t, index_t> range{0, 0};
  for (index_t b = 0; b < buckets.count(); ++b) {
    range.first += buckets.middle(b) < from * length;
    range.second += buckets.middle(b) < to * length;
  }
  return range;
}

}  // namespace qkgeom
