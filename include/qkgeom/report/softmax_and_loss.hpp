// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/io/capture_statistics.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// Distances below this count as near, tokens; a power of 2, since bins of distance begin at these.
inline constexpr index_t near_tokens = 64;

/// Means over the queries of a stretch of the context; errors are a jackknife over documents.
struct softmax_means {
  double queries = 0;              ///< over documents, and over heads if there are several
  std::array<estimate, 3> first;   ///< attention mass on the document's first 1, 4, 64 tokens
  estimate near, entropy;          ///< mass on the last `near_tokens`, the query itself included; nats
  std::vector<estimate> distance;  ///< mass by distance
  /// Mass by distance without the document's first token, over the buckets after the first, where the distance of that
  /// token is the query's position. If a bucket's positions fall into several bins, its mass there is split by their
  /// number; that is exact for buckets as wide as a power of 2.
  std::vector<estimate> distance_rest;
};

/// Attention of one head, or of a group of heads, for queries of each bucket, of the whole context, and of the buckets
/// whose middle lies in its first and in its last fifth.
struct softmax_row {
  std::string group{};  ///< all, rope or nope; empty: one head
  index_t layer = -1, q_head = -1;
  index_t heads = 1;
  bool rope = true;
  std::vector<softmax_means> buckets{};
  softmax_means overall{}, first20{}, last20{};
};

/// The softmax of a model's captured heads.
struct softmax_report {
  bucket_edges buckets, distances;
  std::vector<softmax_row> groups;  ///< all, and rope and nope if the model has both
  std::vector<softmax_row> heads;   ///< by layer, then query head
};

/// Computes attention by head and bucket of queries; no value unless every capture holds it over the same buckets.
/// Reads one layer at a time. A group's means are over the queries of all its heads.
std::optional<softmax_report> softmax_of(const capture_set& source);

/// Returns softmax.csv: a row per group or head and query bucket.
table softmax_table(const softmax_report& report);

/// Returns softmax_distance.csv: a row per group or head, query bucket and bin of distances that its queries have.
table softmax_distance_table(const softmax_report& report);

/// -ln p of the next token by the position that predicts it: means over the tokens of each bucket, of the whole
/// context, and of the buckets whose middle lies in its first and in its last fifth; errors over documents.
struct loss_report {
  bucket_edges buckets;
  std::vector<estimate> loss{};          ///< (buckets) nats per token
  std::vector<double> tokens{};          ///< (buckets) predicted tokens
  std::vector<std::size_t> documents{};  ///< (buckets) documents with predicted tokens
  estimate overall{}, first20{}, last20{};
  double all_tokens = 0;
};

/// Computes the losses of captures; no value unless all captures hold them, over the same buckets.
std::optional<loss_report> loss_of(const capture_set& source);

/// Returns loss.csv: a row per bucket of positions.
table loss_table(const loss_report& report);

}  // namespace qkgeom
