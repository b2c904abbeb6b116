// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "qkgeom/plasticity/pair_sets.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// Attention plasticity of one query bucket.
struct profile_bucket {
  index_t start = 0, end = 0;  ///< tokens
  index_t queries = 0;
  index_t queries_used = 0;  ///< observed queries used by `empirical_profile`; 0 under a query model
  std::int64_t pairs = 0;
  double plasticity = std::numeric_limits<double>::quiet_NaN();  ///< NaN without a model or pairs
  double standard_error =
      std::numeric_limits<double>::quiet_NaN();       ///< jackknife over documents, given the query model
  std::vector<double> document_sum, document_weight;  ///< (documents) their sums' ratio is the mean
  std::int64_t drawn = 0;                             ///< pairs drawn of `pairs`; 0: all were used
  double sampling_error = std::numeric_limits<double>::quiet_NaN();  ///< error from drawing pairs; 0: all were used
  std::vector<double> term_sum;  ///< (pair_terms, documents) with `profile_options::terms`: sums of the terms

  double middle() const { return 0.5 * static_cast<double>(start + end); }
  /// Returns the plasticity with its error over documents.
  estimate mean() const {
    if (std::isnan(standard_error)) return {plasticity};
    const auto documents =
        std::count_if(document_weight.begin(), document_weight.end(), [](double w) { return w > 0; });
    return {plasticity, standard_error, static_cast<double>(documents - 1)};
  }
};

/// Mean plasticity over pairs by key distance |t_i - t_j| and query distance tau - (t_i + t_j) / 2, in tokens.
struct plasticity_heatmap {
  index_t cell = 0;                 ///< cell width, tokens
  index_t width = 0;                ///< cells along each side
  std::vector<double> sum, weight;  ///< (key distance, query distance)
  heatmap_terms terms{};            ///< with `profile_options::terms`; read by `cell_mean`

  double mean(index_t key_distance, index_t query_distance) const {
    const auto i = key_distance * width + query_distance;
    return weight[i] > 0 ? sum[i] / weight[i] : std::numeric_limits<double>::quiet_NaN();
  }
};

/// Plasticity profile of a head over query buckets (section 4.4.5).
struct plasticity_profile_result {
  std::string_view covariance;  ///< kind of the query model, or "empirical"
  bool documents_weigh_same = false;
  std::vector<std::int32_t> documents;  ///< document ids of the document sums; -1: all documents as one
  std::vector<profile_bucket> buckets;
  plasticity_heatmap heatmap;  ///< width 0 without `profile_options::heatmap`
  std::uint64_t model = 0;     ///< fingerprint of the query model; 0 for the observed queries
};

struct profile_options {
  bool heatmap = false;
  index_t heatmap_cell = 0;                   ///< tokens; 0: the first query bucket's width, at least a 256th of all
  std::optional<pair_precision> precision{};  ///< arithmetic of pairs; default: `usual_precision`
  bool terms = false;                         ///< also sum each `pair_term`, by a slower kernel in f64
};

/// Computes the mean pairwise plasticity of each query bucket of each head of a layer, over pairs of keys before the
/// bucket's start (sections 4.4.1, 4.4.5; docs/mathematics.md, Pairwise plasticity). `models` are the `fit_queries` of
/// the same heads. `pairs` is all_pairs, prefix_uniform, sampled, or any function of a `key_pair` that returns a
/// weight. f32 arithmetic errs by about 1e-8 in a mean over many pairs, by up to 1e-5 in a single pair
/// (docs/numerics.md). Throws if the models do not fit the layer, or a weight is negative or not finite.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_profile_result> plasticity_profile(Context& ctx, const std::vector<query_model>& models,
                                                          const layer_view<T, S>& layer, const Pairs& pairs = {},
                                                          const profile_options& options = {}) {
  prepared_layer once(layer);
  return plasticity_profile(ctx, models, once, pairs, options);
}

/// Does the same for a layer that several calls share.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_profile_result> plasticity_profile(Context& ctx, const std::vector<query_model>& models,
                                                          prepared_layer<T, S>& layer, const Pairs& pairs = {},
                                                          const profile_options& options = {});

/// Does the same for one head.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
plasticity_profile_result plasticity_profile(Context& ctx, const query_model& model, const head_view<T, S>& head,
                                             const Pairs& pairs = {}, const profile_options& options = {}) {
  return std::move(plasticity_profile(ctx, std::vector<query_model>{model}, as_layer(head), pairs, options).front());
}

/// Sets the mean and the jackknife error of a bucket from its document sums; `documents_weigh_same` first scales each
/// document to weight 1.
QKGEOM_INLINE void set_mean_and_error(profile_bucket& bucket, bool documents_weigh_same = false);

/// Throws `error`, beginning with `function`, unless each query head of the layer has a model of its head size.
QKGEOM_INLINE void check_models(const char* function, const std::vector<query_model>& models, const layer_shape& layer);

/// Returns the pair problem of each query head: the score distributions of its model. Throws as `check_models` does.
QKGEOM_INLINE std::vector<pair_problem> pair_problems(const char* function, const std::vector<query_model>& models,
                                                      const layer_shape& layer);

/// Returns the profile of one `pair_term`: `plasticity` and `standard_error` of its buckets are the term's mean over
/// the same pairs and its jackknife error over documents. Throws if it was made without `profile_options::terms`.
QKGEOM_INLINE plasticity_profile_result term_profile(const plasticity_profile_result& profile, pair_term term);

/// Returns the mean plasticity, or the mean of `term`, of a heatmap's cell by its indices. With sums S_g, W_g of
/// document g of G and the mean S / W, its error is the infinitesimal jackknife's, (G / (G - 1) sum (S_g - S W_g /
/// W)^2)^(1/2) / W. Throws if the heatmap lacks the cell or was made without `profile_options::terms`.
QKGEOM_INLINE estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance,
                                 std::optional<pair_term> term = {});

/// Merges profiles `a` and `b` of one head under one query model, over keys of different documents or of different
/// shards of a block of documents. Throws if models, pair sets, buckets or heatmap cells differ.
QKGEOM_INLINE plasticity_profile_result merge(plasticity_profile_result a, const plasticity_profile_result& b);

/// Joins the documents e of a profile into blocks e / block, with the id of the first document. The profile then does
/// not grow with the documents, and its jackknife leaves out a block at a time; means do not change.
QKGEOM_INLINE void fold_documents(plasticity_profile_result& profile, index_t block);

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

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/plasticity/detail/profile_of.hpp"
#endif
