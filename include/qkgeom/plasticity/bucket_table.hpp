// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

/// Mean plasticity by (query bucket, key bucket), over pairs of one document in the key bucket before the query bucket.
struct plasticity_bucket_table {
  std::string_view covariance;
  std::uint64_t model = 0;  ///< fingerprint of the query model
  bucket_edges query_buckets, key_buckets;
  std::vector<std::int32_t> documents;  ///< ids of the documents of the cells' sums, if these are kept
  std::vector<profile_bucket> cells;    ///< (query buckets, key buckets) with the query bucket's start, end, queries

  const profile_bucket& cell(index_t query_bucket, index_t key_bucket) const {
    return cells[query_bucket * key_buckets.count() + key_bucket];
  }
};

struct bucket_table_options {
  std::vector<index_t> key_edges{};           ///< ascending edges of key buckets, tokens; empty: the query buckets
  std::optional<pair_precision> precision{};  ///< as in profile_options
  bool keep_documents = false;                ///< keep sums by document, for merges
};

/// Computes the bucket table of each head of a layer by the kernels and pair sets of `plasticity_profile`; a weight's
/// ranks count the keys of the pair's document and key bucket. Throws as `plasticity_profile` does.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_bucket_table> bucket_table(Context& ctx, const std::vector<query_model>& models,
                                                  const layer_view<T, S>& layer, const Pairs& pairs = {},
                                                  const bucket_table_options& options = {});

/// Does the same for a layer that several calls share.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_bucket_table> bucket_table(Context& ctx, const std::vector<query_model>& models,
                                                  prepared_layer<T, S>& layer, const Pairs& pairs = {},
                                                  const bucket_table_options& options = {});

/// Does the same for one head.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
plasticity_bucket_table bucket_table(Context& ctx, const query_model& model, const head_view<T, S>& head,
                                     const Pairs& pairs = {}, const bucket_table_options& options = {}) {
  return std::move(bucket_table(ctx, std::vector<query_model>{model}, as_layer(head), pairs, options).front());
}

}  // namespace qkgeom

#include "qkgeom/plasticity/detail/bucket_table.hpp"
