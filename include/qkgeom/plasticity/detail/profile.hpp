// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

namespace detail {

/// Returns a pair set with options; a function becomes `weighted_pairs`.
template <described_pair_set P>
const P& described(const P& pairs) {
  return pairs;
}
template <pair_functor F>
weighted_pairs described(const F& weight) {
  return {[weight](const key_pair& p) { return static_cast<double>(weight(p)); }};
}

template <described_pair_set P>
pair_request request_of(const P& pairs, std::optional<pair_precision> precision) {
  pair_request request{pairs.weight(), precision};
  if constexpr (requires { pairs.sample(); }) request.sample = pairs.sample();
  return request;
}

/// Adds the sums of `distribution` over the groups `members` to query bucket `b`, whose edges and queries are set.
QKGEOM_INLINE void fill_bucket(profile_bucket& b, const pair_sums& sums, index_t distribution,
                               const std::vector<index_t>& members, bool documents_weigh_same);

/// Makes the profile of all groups from their sums; `queries` (buckets) counts the queries of each bucket.
QKGEOM_INLINE plasticity_profile_result profile_of(const bucket_edges& edges, const std::vector<index_t>& queries,
                                                   pair_sums&& sums, const std::vector<std::int32_t>& documents,
                                                   std::string_view covariance, bool documents_weigh_same);

inline std::vector<index_t> queries_of(const query_model& model) {
  std::vector<index_t> n;
  for (const auto& b : model.bucket) n.push_back(b.queries);
  return n;
}

/// Returns the context's pair sums over a pair set. A weight that the device can evaluate is passed on as it is.
template <context Context, class T, memory_space S, class Set>
std::vector<pair_sums> sums_over(Context& ctx, const layer_view<T, S>& layer, const keys_by_document& groups,
                                 const std::vector<pair_problem>& problems, const pair_request& request,
                                 const Set& set) {
  if constexpr (requires { ctx.gaussian_pairs(layer.k, groups, problems, request, set.functor()); })
    return ctx.gaussian_pairs(layer.k, groups, problems, request, set.functor());
  else
    return ctx.gaussian_pairs(layer.k, groups, problems, request);
}

/// Returns the default width of heatmap cells, tokens: the first query bucket's, or more beyond 256 cells a side.
inline index_t usual_cell(const bucket_edges& buckets) {
  return std::max(buckets.end(0) - buckets.start(0), (buckets.edges().back() + 255) / 256);
}

}  // namespace detail

template <context Context, class T, memory_space S, pair_set Pairs>
std::vector<plasticity_profile_result> plasticity_profile(Context& ctx, const std::vector<query_model>& models,
                                                          prepared_layer<T, S>& layer, const Pairs& pairs,
                                                          const profile_options& options) {
  const auto& set = detail::described(pairs);
  const auto& keys = layer.keys(ctx, set.across_documents);
  auto request = detail::request_of(set, options.precision);
  request.terms = options.terms;
  const auto problems = pair_problems("plasticity_profile", models, layer.view());
  for (const auto& m : models)
    if (options.heatmap && m.buckets.count() > 0)
      request.heatmap_cell = options.heatmap_cell > 0 ? options.heatmap_cell : detail::usual_cell(m.buckets);
  auto sums = detail::sums_over(ctx, layer.view(), keys, problems, request, set);
  std::vector<plasticity_profile_result> results(models.size());
  ctx.for_each(static_cast<index_t>(models.size()), [&](index_t h) {
    results[h] = detail::profile_of(models[h].buckets, detail::queries_of(models[h]), std::move(sums[h]), keys.document,
                                    name_of(models[h].covariance), set.documents_weigh_same);
    results[h].heatmap.cell = request.heatmap_cell;
    results[h].model = fingerprint(models[h]);
  });
  return results;
}

template <context Context, class T, memory_space S, pair_set Pairs>
std::vector<plasticity_profile_result> plasticity_profile(Context& ctx, const std::vector<query_model>& models,
                                                          const layer_view<T, S>& layer, const Pairs& pairs,
                                                          const profile_options& options) {
  prepared_layer once(layer);
  return plasticity_profile(ctx, models, once, pairs, options);
}

}  // namespace qkgeom
