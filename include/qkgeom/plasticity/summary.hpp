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

/// Summarizes a profile: overall, first and last fifth of the context, and their difference, with jackknife errors over
/// documents. `context_length` is L, in tokens. Throws `error` if it is not positive.
QKGEOM_INLINE profile_summary summarize(const plasticity_profile_result& p, index_t context_length,
                                        bucket_weight by = bucket_weight::queries);

/// Returns means over the bins between ascending edges, in tokens.
QKGEOM_INLINE std::vector<bin_mean> bin_means(const plasticity_profile_result& p, const std::vector<double>& edges,
                                              bucket_weight by = bucket_weight::queries);

/// Returns the edges of n equal bins over the context: 5 gives quintiles, 10 deciles.
QKGEOM_INLINE std::vector<double> equal_bins(index_t context_length, int n);

/// Returns the edges 0, L/16, L/8, L/4, L/2, L: 0-8K, 8K-16K, ... at L = 128K.
QKGEOM_INLINE std::vector<double> length_bins(index_t context_length);

/// A stretch of the context, [first, second) tokens.
using token_range = std::pair<double, double>;

/// Returns the stretches that overall, first 20 %, last 20 % and drop average over.
QKGEOM_INLINE std::array<std::vector<token_range>, 4> summary_ranges(index_t context_length);

/// Means of a profile over all its documents, or without one of them. Keeps a reference to the profile.
class profile_means {
 public:
  explicit profile_means(const plasticity_profile_result& profile, bucket_weight by = bucket_weight::queries);

  /// Returns the mean over the buckets whose middle lies in the range; NaN without one. Omits document `left_out`, if
  /// that is not -1.
  double mean(token_range range, index_t left_out = -1) const;
  /// Returns overall, first 20 %, last 20 % and drop, as in `summarize`.
  std::array<double, 4> summary(index_t context_length, index_t left_out = -1) const;
  /// Returns whether a document has pairs in a bucket whose middle lies in one of the ranges.
  bool has_pairs(std::size_t document, const std::vector<token_range>& ranges) const;
  /// Returns value(-1), which depends on the buckets in `ranges`, with the jackknife error of value(e) over the
  /// documents e that have pairs there.
  estimate jackknife(const std::vector<token_range>& ranges, const std::function<double(index_t)>& value) const;

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
QKGEOM_INLINE std::pair<index_t, index_t> buckets_between(const bucket_edges& buckets, double from, double to);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/plasticity/detail/summary.hpp"
#endif
