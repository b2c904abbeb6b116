// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "qkgeom/core/attention_bins.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Sums over the queries of one document, by query head and query bucket, of what its softmax gives.
struct attention_sums {
  std::vector<double> count;     ///< (buckets) queries
  std::vector<double> first;     ///< (heads, buckets, 3) mass on the first 1, 4, 64 tokens
  std::vector<double> distance;  ///< (heads, buckets, bins) mass by distance
  std::vector<double> entropy;   ///< (heads, buckets) entropy in nats
};

struct attention_statistics_options {
  std::optional<index_t> window{};  ///< tokens a query sees, itself included; none: all before it
  double scale = 1;                 ///< of the scores
  double cap = 0;                   ///< c of the cap c tanh(x / c) that scaled scores pass; 0: none
  index_t bins = 1;                 ///< of distances, as `distance_bins`
  /// (measured heads) logits of sinks, each one more outcome of its head's softmax: masses lack the sink's share, and
  /// the entropy has it. Empty: there are none.
  std::vector<float> sinks{};
};

/// Query heads of a layer whose softmax is measured, and how.
struct measured_heads {
  const std::vector<index_t>& heads;
  const bucket_edges& buckets;
  attention_statistics_options options;
};

/// The softmax of a document that is measured while its attention is computed, and where its sums go.
struct measured_softmax {
  const measured_heads& what;
  attention_sums& sums;
};

/// Sums of 0 over the queries of a document. Throws if its distances need more bins.
attention_sums no_attention_sums(index_t tokens, const measured_heads& what);

/// Measures the causal softmax of some query heads, without their attention: q (tokens, query heads, d), k (tokens, key
/// heads, d) as they meet in the attention. Scores in f32, sums in f64; the result does not depend on the number of
/// threads.
attention_sums measure_attention(thread_pool& pool, tensor_view<const float> q, tensor_view<const float> k,
                                 const measured_heads& what);

}  // namespace qkgeom
