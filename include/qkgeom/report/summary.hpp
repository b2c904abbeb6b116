// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// Weight of a query bucket in means over buckets: its number of queries, or its width in tokens.
enum class bucket_weight { queries, width };

/// Aggregates of a profile (4.4.5): means over the query buckets whose middle lies in [0, L), [0, 0.2 L), [0.8 L, L).
struct profile_summary {
  estimate overall, first20, last20, drop;  ///< drop = first20 - last20
  std::int64_t pairs = 0;
};

/// One region of the context and the mean over the buckets whose middle lies in it; null if there is none.
struct bin_mean {
  double start = 0, end = 0;  ///< tokens
  estimate plasticity;
};

namespace detail {

/// Mean over the buckets whose middle lies in [low, high); `left_out` >= 0 leaves that document out.
inline double region_mean(const plasticity_profile_result& p, double low, double high, bucket_weight by,
                          index_t left_out, const std::vector<std::pair<double, double>>& totals) {
  double sum = 0, weight = 0;
  for (std::size_t b = 0; b < p.buckets.size(); ++b) {
    const auto& bucket = p.buckets[b];
    if (std::isnan(bucket.plasticity) || bucket.middle() < low || bucket.middle() >= high) continue;
    double value = bucket.plasticity;
    if (left_out >= 0 && bucket.document_weight[left_out] > 0) {
      const auto e = static_cast<std::size_t>(left_out);
      const double rest = totals[b].second - bucket.document_weight[e];
      if (!(rest > 0)) continue;
      value = (totals[b].first - bucket.document_sum[e]) / rest;
    }
    const double w = by == bucket_weight::queries ? static_cast<double>(bucket.queries)
                                                  : static_cast<double>(bucket.end - bucket.start);
    sum += w * value;
    weight += w;
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
}

inline std::vector<std::pair<double, double>> bucket_totals(const plasticity_profile_result& p) {
  std::vector<std::pair<double, double>> totals;
  for (const auto& b : p.buckets) {
    double sum = 0, weight = 0;
    for (std::size_t e = 0; e < b.document_sum.size(); ++e) {
      sum += b.document_sum[e];
      weight += b.document_weight[e];
    }
    totals.emplace_back(sum, weight);
  }
  return totals;
}

/// Whether two numbers are different ones, or there is one alone.
inline bool differs(double a, double b) { return !(a == b || (std::isnan(a) && std::isnan(b))); }

/// A stretch of the context, [first, second) tokens.
using token_range = std::pair<double, double>;

/// Whether a document has pairs in a bucket with a value whose middle lies in one of the ranges, and so a say in what
/// is made of them.
inline bool weighs_in(const plasticity_profile_result& p, const std::vector<token_range>& ranges,
                      std::size_t document) {
  for (const auto& b : p.buckets)
    for (const auto& [low, high] : ranges)
      if (!std::isnan(b.plasticity) && b.document_weight[document] > 0 && b.middle() >= low && b.middle() < high)
        return true;
  return false;
}

/// value(-1), made of the buckets in `ranges`, with the jackknife error of value(e) over the documents that have pairs
/// there.
template <class Value>
estimate jackknife(const plasticity_profile_result& p, const std::vector<token_range>& ranges, const Value& value) {
  estimate result{value(index_t{-1}), std::numeric_limits<double>::quiet_NaN()};
  if (std::isnan(result.value)) return result;
  std::vector<double> without;
  for (std::size_t e = 0; e < p.documents.size(); ++e)
    if (weighs_in(p, ranges, e)) without.push_back(value(static_cast<index_t>(e)));
  result.error = jackknife_error(without);
  return result;
}

/// The stretches that overall, first 20 %, last 20 % and drop are made of.
inline std::array<std::vector<token_range>, 4> summary_ranges(index_t context_length) {
  const double L = static_cast<double>(context_length);
  const token_range all{0, L + 1}, first{0, 0.2 * L}, last{0.8 * L, L + 1};
  return {{{all}, {first}, {last}, {first, last}}};
}

/// Overall, first 20 %, last 20 % and drop, with the document of index `left_out` left out if that is >= 0.
inline std::array<double, 4> summary_values(const plasticity_profile_result& p, index_t context_length,
                                            bucket_weight by, index_t left_out,
                                            const std::vector<std::pair<double, double>>& totals) {
  const auto ranges = summary_ranges(context_length);
  const auto mean = [&](std::size_t i) {
    return region_mean(p, ranges[i][0].first, ranges[i][0].second, by, left_out, totals);
  };
  const double first = mean(1), last = mean(2);
  return {mean(0), first, last, first - last};
}

}  // namespace detail

/// A mean of what each document adds up to: the ratio of its sums to their weights over all documents, with the
/// jackknife error over those that weigh something.
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

/// The buckets [first, second) of a stretch of the context: those whose middle lies in [from, to) times its length.
inline std::pair<index_t, index_t> buckets_between(const bucket_edges& buckets, double from, double to) {
  const double length = buckets.count() > 0 ? static_cast<double>(buckets.edges().back()) : 0;
  std::pair<index_t, index_t> range{0, 0};
  for (index_t b = 0; b < buckets.count(); ++b) {
    range.first += buckets.middle(b) < from * length;
    range.second += buckets.middle(b) < to * length;
  }
  return range;
}

/// Overall, first and last fifth of the context, and their difference. `context_length` is the manifest's L, in tokens.
inline profile_summary summarize(const plasticity_profile_result& p, index_t context_length,
                                 bucket_weight by = bucket_weight::queries) {
  require(context_length > 0, "summarize: context_length must be at least 1 token, not ", context_length);
  const auto totals = detail::bucket_totals(p);
  profile_summary s;
  const auto ranges = detail::summary_ranges(context_length);
  estimate* const parts[] = {&s.overall, &s.first20, &s.last20, &s.drop};
  for (std::size_t i = 0; i < 4; ++i)
    *parts[i] = detail::jackknife(
        p, ranges[i], [&](index_t e) { return detail::summary_values(p, context_length, by, e, totals)[i]; });
  for (const auto& b : p.buckets) s.pairs += b.pairs;
  return s;
}

/// Means over the bins between ascending edges, in tokens.
inline std::vector<bin_mean> bin_means(const plasticity_profile_result& p, const std::vector<double>& edges,
                                       bucket_weight by = bucket_weight::queries) {
  const auto totals = detail::bucket_totals(p);
  std::vector<bin_mean> bins;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i)
    bins.push_back({edges[i], edges[i + 1], detail::jackknife(p, {{edges[i], edges[i + 1]}}, [&](index_t e) {
                      return detail::region_mean(p, edges[i], edges[i + 1], by, e, totals);
                    })});
  return bins;
}

/// Edges of n equal bins over the context: 5 gives quintiles, 10 deciles.
inline std::vector<double> equal_bins(index_t context_length, int n) {
  std::vector<double> edges;
  for (int i = 0; i <= n; ++i) edges.push_back(static_cast<double>(context_length) * i / n);
  return edges;
}

/// Edges 0, L/16, L/8, L/4, L/2, L: 0-8K, 8K-16K, ... at L = 128K.
inline std::vector<double> length_bins(index_t context_length) {
  std::vector<double> edges{0};
  for (int part = 16; part >= 1; part /= 2) edges.push_back(static_cast<double>(context_length) / part);
  return edges;
}

}  // namespace qkgeom
