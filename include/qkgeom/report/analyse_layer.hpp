// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/plasticity/merge.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// Moments of a layer that were taken elsewhere, over the query buckets of the analysis, for `analyse_layer`.
struct known_moments {
  layer_moments moments;
  layer_blocks by_block;  ///< `blocks.document` is not needed
};

namespace detail {

/// What one pass over the rows of a layer collects.
template <class T>
struct layer_statistics {
  layer_moments moments;
  std::optional<index_t> window;
  index_t queries = 0, keys = 0;
  typename observed_queries<T>::rows observed;
  layer_blocks by_block;
};

/// Moments and observed queries of all shards of a layer; by block of documents too where geometry is asked for.
/// `every_token`, where given, holds the moments of more rows than there are, which count instead. Blocks are of
/// `documents`; where that is empty, of the layer's own.
template <class T, context Context, class Shards>
layer_statistics<T> collect(Context& ctx, const Shards& shards, const bucket_edges& buckets, index_t context_length,
                            const analysis_options& options, std::optional<known_moments> every_token,
                            std::vector<std::int32_t> documents) {
  const edge_buckets grid{buckets.edges()};
  layer_statistics<T> s;
  observed_queries<T> observed(buckets, empirical_options{}.max_queries, options.seed);
  std::vector<std::int32_t> own;
  bool first = true;
  shards([&](const layer_view<T>& shard) {
    if (!every_token) {
      auto m = accumulate(ctx, shard, grid, {.context_length = context_length});
      s.moments = first ? std::move(m) : merge(std::move(s.moments), m);
    }
    first = false;
    s.window = shard.window;
    s.queries += shard.q.rows;
    s.keys += shard.k.rows;
    if (options.plasticity && options.empirical) observed.add(shard);
    if (documents.empty()) add_documents(shard, own);
  });
  if (options.plasticity && options.empirical) s.observed = observed.take();
  if (documents.empty()) documents = std::move(own);
  if (every_token) {
    s.moments = std::move(every_token->moments);
    // Observed queries stand where the models' do, so that windows admit the same keys.
    for (std::size_t b = 0; b < s.observed.mean_position.size(); ++b)
      s.observed.mean_position[b] = s.moments.q.at(0).bucket.at(b).mean_t;
    s.by_block = std::move(every_token->by_block);
    s.by_block.blocks.document = blocks_of(std::move(documents), 1).document;
    return s;
  }
  if (!options.geometry) return s;
  s.by_block.blocks = blocks_of(std::move(documents), std::max<index_t>(1, options.geometry_blocks));
  shards([&](const layer_view<T>& shard) { s.by_block.add(ctx, shard, options.geometry_blocks > 1); });
  return s;
}

/// PCA and rotation of every head; slopes per context are of `context_length` tokens unless the options give another.
template <context Context>
void add_geometry(Context& ctx, const layer_moments& moments, const layer_blocks& by_block, index_t context_length,
                  const analysis_options& options, std::vector<head_report>& heads) {
  auto components = pca(ctx, moments, options.pca);
  auto rotation = options.rotation;
  if (rotation.context_length == 0) rotation.context_length = context_length;
  auto planes = planar_rotation(ctx, moments, rotation);
  auto replicates = geometry_without_blocks(ctx, by_block, moments, options.pca, rotation, planes);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    heads[h].geometry = std::move(replicates[h]);
    heads[h].pca = std::move(components[h]);
    heads[h].pca.components.clear();
    heads[h].rotation = std::move(planes[h]);
  }
}

/// The pair set that the options ask for: `all_pairs`, or `sampled` if `draw.pairs` is above 0.
struct chosen_pairs {
  bool across_documents = false;
  pair_sample draw{};
  static constexpr bool documents_weigh_same = false;
  pair_weight weight() const { return {}; }
  pair_sample sample() const { return draw; }
};

/// The query models that the options ask for, (covariances)(heads).
template <context Context>
std::vector<std::vector<query_model>> fit_models(Context& ctx, const layer_moments& moments,
                                                 const analysis_options& options) {
  require(!options.covariances.empty(), "covariances: name at least one query model");
  std::vector<std::vector<query_model>> models;
  for (const covariance_kind kind : options.covariances)
    models.push_back(fit_queries(ctx, moments, {kind, options.position, options.no_drift}));
  return models;
}

/// Profiles of the heads of a layer under every query model over the keys of one shard of it, (covariances)(heads).
/// `shard` is its number, for drawn pairs.
template <context Context, class T, memory_space S>
std::vector<std::vector<plasticity_profile_result>> shard_profiles(Context& ctx, const layer_view<T, S>& rows,
                                                                   const std::vector<std::vector<query_model>>& models,
                                                                   index_t layer, std::uint32_t shard,
                                                                   const analysis_options& options) {
  const chosen_pairs pairs{options.across_documents,
                           {options.sampled_pairs, options.seed, static_cast<std::uint32_t>(layer) + (shard << 16)}};
  std::vector<std::vector<plasticity_profile_result>> found;
  for (std::size_t c = 0; c < models.size(); ++c)
    found.push_back(plasticity_profile(ctx, models[c], rows, pairs,
                                       {.heatmap = options.heatmap && c == 0,
                                        .heatmap_cell = options.heatmap_cell,
                                        .precision = options.precision,
                                        .terms = options.components && c == 0}));
  return found;
}

/// What the headline query models say of the drift axis.
inline void add_drift(const std::vector<query_model>& headline, std::vector<head_report>& heads) {
  for (std::size_t h = 0; h < heads.size(); ++h) {
    heads[h].alpha_pos = headline[h].alpha_pos;
    heads[h].beta_pos = headline[h].beta_pos;
    heads[h].sigma2_pos = headline[h].sigma2_pos;
    heads[h].r2_pos = headline[h].r2_pos;
  }
}

/// Profiles under every query model, and of the observed queries, over the keys of all shards. Each shard of layer
/// `layer` draws pairs of its own.
template <class T, context Context, class Shards>
void add_profiles(Context& ctx, const Shards& shards, const layer_statistics<T>& s, index_t layer,
                  const bucket_edges& buckets, index_t document_block, const analysis_options& options,
                  std::vector<head_report>& heads) {
  const auto models = fit_models(ctx, s.moments, options);
  const auto add = [&](std::optional<plasticity_profile_result>& all, plasticity_profile_result&& shard) {
    fold_documents(shard, document_block);
    all = all ? merge(std::move(*all), shard) : std::move(shard);
  };
  std::vector<std::vector<std::optional<plasticity_profile_result>>> profiles(models.size());
  for (auto& p : profiles) p.resize(heads.size());
  std::uint32_t number = 0;
  shards([&](const layer_view<T>& shard) {
    auto found = shard_profiles(ctx, shard, models, layer, number++, options);
    for (std::size_t c = 0; c < models.size(); ++c)
      for (std::size_t h = 0; h < heads.size(); ++h) add(profiles[c][h], std::move(found[c][h]));
    if (!options.empirical) return;
    auto observed = empirical_profile(ctx, s.observed, shard, buckets,
                                      {.position = options.position, .across_documents = options.across_documents});
    for (std::size_t h = 0; h < heads.size(); ++h) add(heads[h].empirical, std::move(observed[h]));
  });
  add_drift(models[0], heads);
  for (std::size_t h = 0; h < heads.size(); ++h)
    for (auto& p : profiles) heads[h].profiles.push_back(std::move(*p[h]));
}

/// The reports of a layer's heads with their names and nothing else.
inline std::vector<head_report> named_heads(const layer_names& names, const std::vector<index_t>& key_of_query,
                                            std::optional<index_t> window) {
  std::vector<head_report> heads(key_of_query.size());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    auto& r = heads[h];
    r.layer = names.layer;
    r.q_head = names.query_heads[h];
    r.k_head = names.key_heads[key_of_query[h]];
    r.rope = names.rope;
    r.window = window;
  }
  return heads;
}

}  // namespace detail

/// Runs the analyses on every head of one layer, whose rows come in one or several shards: `shards(f)` calls
/// f(layer_view<T>) with each shard in turn, as often as it is called. A document's keys must stand in one shard; the
/// query models are those of all shards. `context_length` in tokens. Documents e are counted in blocks e /
/// `document_block` (1: each alone), see `fold_documents`. `documents`: those of all layers, for blocks of documents
/// that are the same in each layer (`geometry_blocks`); empty: the layer's own.
template <class T, context Context, class Shards>
std::vector<head_report> analyse_layer(Context& ctx, const Shards& shards, const layer_names& names,
                                       const bucket_edges& buckets, index_t context_length,
                                       const analysis_options& options, index_t document_block,
                                       std::optional<known_moments> every_token = {},
                                       std::vector<std::int32_t> documents = {}) {
  const auto s =
      detail::collect<T>(ctx, shards, buckets, context_length, options, std::move(every_token), std::move(documents));
  auto heads = detail::named_heads(names, s.moments.key_of_query, s.window);
  for (auto& r : heads) {
    r.queries = s.queries;
    r.keys = s.keys;
  }
  if (options.geometry) detail::add_geometry(ctx, s.moments, s.by_block, context_length, options, heads);
  if (!options.plasticity) return heads;
  require(options.sampled_pairs == 0 || options.sampled_pairs >= 2,
          "sampled_pairs must be 0 for all pairs, or at least 2 a query bucket, not ", options.sampled_pairs);
  detail::add_profiles<T>(ctx, shards, s, names.layer, buckets, document_block, options, heads);
  for (auto& h : heads) {
    for (const auto& p : h.profiles) h.summaries.push_back(summarize(p, context_length));
    if (!h.empirical) continue;
    h.empirical_summary = summarize(*h.empirical, context_length);
    h.empirical_unbiased = summarize(unbiased(*h.empirical), context_length);
  }
  return heads;
}

/// The same of rows in memory.
template <context Context, class T>
std::vector<head_report> analyse_layer(Context& ctx, const layer_view<T>& layer, const layer_names& names,
                                       const bucket_edges& buckets, index_t context_length,
                                       const analysis_options& options) {
  return analyse_layer<T>(
      ctx, [&](const auto& f) { f(layer); }, names, buckets, context_length, options, 1);
}

}  // namespace qkgeom
