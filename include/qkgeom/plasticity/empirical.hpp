// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/context/admissible.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/plasticity/observed_queries.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

struct empirical_options {
  index_t most_queries = 4096;  ///< observed queries used a bucket; more are thinned by a counter-based draw
  std::uint64_t seed = 0;
  query_position position = query_position::middle;  ///< for the window of windowed layers
  bool across_documents = false;
};

/// What is left to choose where the queries are gathered already: as in `empirical_options`.
struct empirical_key_options {
  query_position position = query_position::middle;
  bool across_documents = false;
};

namespace detail {

/// Rows `query_rows` of `q`, by bucket, against the keys of the layer; `queries` are those that they were chosen from.
template <context Context, class T, memory_space S, class Rows>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const tensor_view<const T, S>& q,
                                                         const std::vector<std::vector<index_t>>& query_rows,
                                                         const Rows& queries, const layer_view<T, S>& layer,
                                                         const bucket_edges& edges,
                                                         const empirical_key_options& options) {
  check_shapes(layer);
  require(static_cast<index_t>(query_rows.size()) == edges.count(), "empirical_profile: queries of ", query_rows.size(),
          " buckets for edges of ", edges.count());
  require(q.heads == layer.q.heads && q.dim == layer.k.dim, "empirical_profile: queries of ", q.heads,
          " heads of size ", q.dim, " for a layer of ", layer.q.heads, " of size ", layer.k.dim);
  const auto groups = order_keys_by_document(ctx, layer, options.across_documents);
  std::vector<score_distribution> distributions;
  for (index_t b = 0; b < edges.count(); ++b) {
    const auto n = static_cast<std::size_t>(b);
    const bool by_mean = options.position == query_position::mean && queries.count[n] > 0;
    distributions.push_back(
        admitting(edges.start(b), by_mean ? queries.mean_position[n] : edges.middle(b), layer.window));
  }
  std::vector<empirical_problem> problems;
  for (index_t h = 0; h < layer.q.heads; ++h) problems.push_back({h, layer.key_of_query[h], query_rows, distributions});
  auto sums = ctx.empirical_pairs(q, layer.k, groups, problems);
  std::vector<plasticity_profile_result> results;
  for (auto& s : sums) {
    results.push_back(profile_of(edges, queries.count, std::move(s), groups.document, "empirical", false));
    for (std::size_t b = 0; b < query_rows.size(); ++b)
      results.back().buckets[b].queries_used = static_cast<index_t>(query_rows[b].size());
  }
  return results;
}

}  // namespace detail

/// Plasticity of the observed queries themselves, without a model (4.7, 4.8): p is the share of the bucket's n queries
/// that score key i above key j, a tie counts one half, and the mean is of 4p(1 - p), the plug-in form. It is low by
/// the factor 1 - 1/n: `unbiased` undoes that. `queries` as gathered from this layer, or from all its terms where
/// `layer` is one of them: only its keys are read. Throws if queries, layer and edges do not fit each other.
template <context Context, class T>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx,
                                                         const typename observed_queries<T>::rows& queries,
                                                         const layer_view<T>& layer, const bucket_edges& edges,
                                                         const empirical_key_options& options = {}) {
  return detail::empirical_profile(ctx, queries.q, queries.bucket, queries, layer, edges, options);
}

/// The same with the layer's own queries over `buckets`.
template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const layer_view<T>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {}) {
  check_shapes(layer);
  observed_queries<T> queries(buckets.edges(context_length), options.most_queries, options.seed);
  queries.add(layer);
  return empirical_profile(ctx, queries.take(), layer, queries.edges(), {options.position, options.across_documents});
}

/// The same where the rows lie on the context's device: the same queries are used, and stay there.
template <context Context, class T, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const layer_view<T, memory_space::device>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {}) {
  check_shapes(layer);
  observed_queries<T> queries(buckets.edges(context_length), options.most_queries, options.seed);
  queries.add_positions(ctx.host_copy(layer.q_position).view());
  const auto kept = queries.take();
  auto rows = kept.bucket;
  for (auto& bucket : rows)
    for (index_t& i : bucket) i = kept.row[i];
  return detail::empirical_profile(ctx, layer.q, rows, kept, layer, queries.edges(),
                                   {options.position, options.across_documents});
}

/// The same for one head.
template <context Context, class T, memory_space S, bucketing Buckets>
plasticity_profile_result empirical_profile(Context& ctx, const head_view<T, S>& head, const Buckets& buckets,
                                            index_t context_length, const empirical_options& options = {}) {
  return std::move(empirical_profile(ctx, as_layer(head), buckets, context_length, options).front());
}

/// The plug-in empirical profile times n / (n - 1), n the queries used of each bucket.
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

}  // namespace qkgeom
