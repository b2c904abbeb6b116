// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom {

/// Attention weights of the captured heads of one layer, summed over the queries of each document.
struct softmax_sums {
  bucket_edges buckets;    ///< over the queries' positions
  bucket_edges distances;  ///< as `distance_edges`
  index_t documents = 0, heads = 0;
  std::vector<double> count;     ///< (documents, buckets) queries
  std::vector<double> first;     ///< (documents, heads, buckets, 3) attention mass on the first 1, 4, 64 tokens
  std::vector<double> distance;  ///< (documents, heads, buckets, distances) mass by distance
  std::vector<double> entropy;   ///< (documents, heads, buckets) nats
};

/// -ln p of the next token, summed over the tokens of each document by the bucket of the position that predicts them.
struct document_losses {
  bucket_edges buckets;
  index_t documents = 0;
  std::vector<double> sum;    ///< (documents, buckets) nats
  std::vector<double> count;  ///< (documents, buckets) predicted tokens
};

/// Reads the softmax sums of a captured layer, the documents of all captures one after another. Returns no value unless
/// every capture holds them over the same buckets and the set has all its rows. Throws `error` naming file and tensor
/// where a file disagrees with the manifest.
std::optional<softmax_sums> read_softmax(const capture_set& source, index_t layer);

/// Reads the losses of a set of captures; no value and errors as for `read_softmax`.
std::optional<document_losses> read_losses(const capture_set& source);

}  // namespace qkgeom
