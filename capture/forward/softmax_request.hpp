// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Queries of a document's layer whose softmax is measured, and options of the measurement.
struct softmax_request {
  std::vector<index_t> heads{};           ///< query heads
  std::vector<std::int32_t> positions{};  ///< ascending, of the queries
  std::vector<index_t> weights{};         ///< (positions) number of the document's queries that each one stands for
  std::optional<index_t> window{};        ///< tokens a query sees, itself included; without a value: all before it
  double scale = 1;                       ///< factor of the scores
  double cap = 0;                         ///< c of the cap c tanh(x / c) of scaled scores; 0: no cap
  index_t bins = 1;                       ///< bins of distances, as `distance_bins`
  /// (heads) logits of sinks, each one more outcome of its head's softmax: masses lack the sink's share, the entropy
  /// includes it. Empty: no sinks.
  std::vector<float> sinks{};
};

/// Layout of a query's measures: mass on the first tokens, entropy in nats, mass by distance.
struct softmax_measures {
  static constexpr int firsts = static_cast<int>(first_tokens.size()), entropy = firsts, distances = entropy + 1;
  index_t first[firsts];
  index_t bins;

  explicit softmax_measures(index_t distance_bins) : bins(distance_bins) {
    std::copy(first_tokens.begin(), first_tokens.end(), first);
  }
  QKGEOM_HD index_t count() const { return distances + bins; }
};

/// Takes the measures (heads, queries, measures) of some queries of a request; `first` is the number of the first one.
using softmax_sink = std::function<void(std::size_t document, index_t layer, const softmax_request& what, index_t first,
                                        const std::vector<double>& measures)>;

}  // namespace qkgeom
