// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/attention_bins.hpp"
#include "qkgeom/core/cache_types.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// The effects of rounded keys on the queries of one document, summed over queries.
struct rounding_sums {
  std::int32_t document = 0;  ///< number of the document
  double queries = 0;         ///< queries that may read two captured keys or more
  double flipped = 0;         ///< sum of each query's share of flipped pairs
  double weight = 0;          ///< sum of p_i p_j over pairs i < j
  double weighted = 0;        ///< sum of p_i p_j over flipped pairs
  double moved = 0;           ///< sum of |p' - p| / 2 over keys
};

/// Shares of flipped pairs among keys that are [start, end) tokens apart.
struct flips_by_distance {
  index_t start = 0, end = 0;
  double pairs = 0;   ///< pairs of two keys under a query
  estimate flipped;   ///< share of the pairs
  estimate weighted;  ///< share of the sum of p_i p_j
};

/// The effect of one cache type on the queries that read a key head (docs/mathematics.md, Rounded keys). A query flips
/// a pair of keys if it orders them differently once both are rounded; a tie only before or only after rounding counts
/// one half. p is the softmax of the query over the captured keys that it may read, p' the one over the rounded keys.
struct rounding_effect {
  cache_type type = cache_type::f32;
  estimate flipped;   ///< mean over queries of the share of pairs that are flipped
  estimate weighted;  ///< share of flipped pairs when a pair weighs p_i p_j
  estimate mass;      ///< mean over queries of 2 sum p_i p_j over flipped pairs: two draws of the softmax are flipped
  estimate moved;     ///< mean over queries of sum |p' - p| / 2
  std::vector<flips_by_distance> distances;
  std::vector<rounding_sums> documents;  ///< ascending
};

struct rounding_options {
  index_t max_queries = 16;  ///< observed queries used per bucket; drawn by `seed` if there are more
  std::uint64_t seed = 0;
  double score_scale = 0;             ///< logits per unit of q.k; 0: 1/sqrt(d)
  std::optional<double> score_cap{};  ///< c of the soft cap c tanh(x / c) of logits
};

/// Computes the effect of each cache type on each key head of a layer, (key heads, types), over all query heads that
/// read it. A query reads the captured keys of its document from its window's beginning up to its position. Errors are
/// over documents. Keys are in single precision, scores in f64. Costs O(n^2) per query, type and head of n keys of a
/// document. Throws `error` if shapes do not fit, a type does not take this head size, or keys overflow half precision.
template <context Context, class T>
std::vector<std::vector<rounding_effect>> rounding_effects(Context& ctx, const layer_view<T>& layer,
                                                           const std::vector<cache_type>& types,
                                                           const bucket_edges& edges, index_t context_length,
                                                           const rounding_options& options = {});

}  // namespace qkgeom

#include "qkgeom/plasticity/detail/rounded_keys.hpp"
