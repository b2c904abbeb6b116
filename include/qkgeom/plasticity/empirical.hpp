// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/plasticity/observed_queries.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

struct empirical_options {
  index_t max_queries = 4096;  ///< observed queries used per bucket; drawn by `seed` if there are more
  std::uint64_t seed = 0;
  query_position position = query_position::middle;  ///< tau, for the window of windowed layers
  bool across_documents = false;                     ///< also pairs of keys of different documents
  std::optional<pair_precision> precision{};         ///< arithmetic of scores; default: `usual_precision`
};

/// The members of `empirical_options` that apply to gathered queries.
struct empirical_key_options {
  query_position position = query_position::middle;
  bool across_documents = false;
  std::optional<pair_precision> precision{};
};

/// Computes the plasticity of the observed queries of a layer, without a query model (4.7, 4.8; docs/mathematics.md,
/// Pairwise plasticity), on the query buckets that `buckets` defines over [0, context_length) tokens. p is the share of
/// a bucket's n queries that score key i above key j, ties counting one half; the profile is the mean of the plug-in
/// 4p(1 - p), which is low by the factor 1 - 1/n (`unbiased`). Throws if shapes do not fit or a query is not finite.
template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const layer_view<T>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {});

/// Does the same on the context's device, where the queries stay.
template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const layer_view<T, memory_space::device>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {});

/// Does the same for a layer that several calls share.
template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, prepared_layer<T, memory_space::device>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {});

/// Does the same for one head.
template <context Context, class T, memory_space S, bucketing Buckets>
plasticity_profile_result empirical_profile(Context& ctx, const head_view<T, S>& head, const Buckets& buckets,
                                            index_t context_length, const empirical_options& options = {}) {
  return std::move(empirical_profile(ctx, as_layer(head), buckets, context_length, options).front());
}

/// Computes the plasticity of queries gathered from this layer or from all shards of it, against the keys of `layer`.
/// Throws if queries, layer and edges do not fit each other.
template <context Context, class T>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx,
                                                         const typename observed_queries<T>::rows& queries,
                                                         const layer_view<T>& layer, const bucket_edges& edges,
                                                         const empirical_key_options& options = {});

/// Does the same for a layer that several calls share.
template <context Context, class T>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx,
                                                         const typename observed_queries<T>::rows& queries,
                                                         prepared_layer<T>& layer, const bucket_edges& edges,
                                                         const empirical_key_options& options = {});

/// Multiplies the plug-in profile by n / (n - 1), n the queries used per bucket.
inline plasticity_profile_result unbiased(plasticity_profile_result profile);

}  // namespace qkgeom

#include "qkgeom/plasticity/detail/empirical.hpp"
