// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_problem.hpp"
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

/// Computes the plasticity of the observed queries of a layer, without a query model (4.7, 4.8; docs/mathematics.md,
/// Pairwise plasticity), on the query buckets that `buckets` defines over [0, context_length) tokens. p is the share of
/// a bucket's n queries that score key i above key j, ties counting one half; the profile is the mean of the plug-in
/// 4p(1 - p), which is low by the factor 1 - 1/n (`unbiased`). Throws if shapes do not fit or a query is not finite.
template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const layer_view<T>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {}) {
  check_shapes(layer);
  observed_queries<T> queries(buckets.edges(context_length), options.max_queries, options.seed);
  queries.add(layer);
  return empirical_profile(ctx, queries.take(), layer, queries.edges(), options);
}

/// Does the same on the context's device, where the queries stay.
template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const layer_view<T, memory_space::device>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {}) {
  prepared_layer once(layer);
  return empirical_profile(ctx, once, buckets, context_length, options);
}

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
/// `max_queries` and `seed` do not matter. Throws if queries, layer and edges do not fit each other.
template <context Context, class T>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx,
                                                         const typename observed_queries<T>::rows& queries,
                                                         const layer_view<T>& layer, const bucket_edges& edges,
                                                         const empirical_options& options = {}) {
  prepared_layer once(layer);
  return empirical_profile<Context, T>(ctx, queries, once, edges, options);
}

/// Does the same for a layer that several calls share.
template <context Context, class T>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx,
                                                         const typename observed_queries<T>::rows& queries,
                                                         prepared_layer<T>& layer, const bucket_edges& edges,
                                                         const empirical_options& options = {});

/// Multiplies the plug-in profile by n / (n - 1), n the queries used per bucket.
inline plasticity_profile_result unbiased(plasticity_profile_result profile) {
  for (auto& b : profile.buckets) {
    const auto n = static_cast<double>(b.queries_used);
    if (n < 2) continue;
    b.plasticity *= n / (n - 1);
    b.standard_error *= n / (n - 1);
    for (double& s : b.document_sum) s *= n / (n - 1);
  }
  return profile;
}

namespace detail {

template <class T, memory_space S>
struct chosen_queries {
  const tensor_view<const T, S>& q;
  const std::vector<std::vector<index_t>>& query_rows;  ///< (buckets) rows of q
  const std::vector<index_t>& count;                    ///< (buckets) queries that the rows were chosen from
  const std::vector<double>& mean_position;             ///< (buckets) of these queries
};

/// Computes the profiles of queries by bucket against the keys of the layer.
template <context Context, class T, memory_space S>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const chosen_queries<T, S>& queries,
                                                         prepared_layer<T, S>& prepared, const bucket_edges& edges,
                                                         const empirical_options& options) {
  const auto& [q, query_rows, count, mean_position] = queries;
  const auto& layer = prepared.view();
  require(static_cast<index_t>(query_rows.size()) == edges.count(), "empirical_profile: queries of ", query_rows.size(),
          " buckets for edges of ", edges.count());
  require(q.heads == layer.q.heads && q.dim == layer.k.dim, "empirical_profile: queries of ", q.heads,
          " heads of size ", q.dim, " for a layer of ", layer.q.heads, " of size ", layer.k.dim);
  const auto& keys = prepared.keys(ctx, options.across_documents);
  std::vector<score_distribution> distributions;
  for (index_t b = 0; b < edges.count(); ++b) {
    const bool by_mean = options.position == query_position::mean && count[b] > 0;
    distributions.push_back(admitting(edges.start(b), by_mean ? mean_position[b] : edges.middle(b), layer.window));
  }
  std::vector<empirical_problem> problems;
  for (index_t h = 0; h < layer.q.heads; ++h) problems.push_back({h, layer.key_of_query[h], query_rows, distributions});
  auto sums = ctx.empirical_pairs(q, layer.k, keys, problems, options.precision);
  std::vector<plasticity_profile_result> results(sums.size());
  ctx.for_each(static_cast<index_t>(sums.size()), [&](index_t h) {
    // Members are named, since clang before 16 refuses structured bindings in a lambda.
    results[h] = profile_of(edges, queries.count, std::move(sums[h]), keys.document, "empirical", false);
    for (std::size_t b = 0; b < queries.query_rows.size(); ++b)
      results[h].buckets[b].queries_used = queries.query_rows[b].size();
  });
  return results;
}

}  // namespace detail

template <context Context, class T>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx,
                                                         const typename observed_queries<T>::rows& queries,
                                                         prepared_layer<T>& layer, const bucket_edges& edges,
                                                         const empirical_options& options) {
  return detail::empirical_profile<Context, T, memory_space::host>(
      ctx, {queries.q, queries.bucket, queries.count, queries.mean_position}, layer, edges, options);
}

template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, prepared_layer<T, memory_space::device>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options) {
  observed_queries<T> queries(buckets.edges(context_length), options.max_queries, options.seed);
  queries.add_positions(ctx.host_copy(layer.view().q_position).view());
  const auto kept = queries.take();
  auto rows = kept.bucket;
  for (auto& bucket : rows)
    for (index_t& i : bucket) i = kept.row[i];
  return detail::empirical_profile<Context, T, memory_space::device>(
      ctx, {layer.view().q, rows, kept.count, kept.mean_position}, layer, queries.edges(), options);
}

}  // namespace qkgeom
