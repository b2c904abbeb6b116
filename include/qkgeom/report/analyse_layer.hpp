// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/geometry_errors.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// Moments of a layer from elsewhere, over the query buckets of the analysis.
struct known_moments {
  layer_moments moments;
  layer_blocks by_block;  ///< `blocks.document` is not needed
};

/// Merges the moments of a layer's blocks, as `set_moments::read` returns them. `each_block` keeps the blocks apart
/// too, for the errors of PCA and rotation.
inline known_moments known_moments_of(std::vector<token_moments> blocks, bool each_block) {
  if (!each_block) {
    for (std::size_t b = 1; b < blocks.size(); ++b) merge(blocks.at(0), blocks[b]);
    blocks.resize(1);
  }
  known_moments known{blocks.at(0).moments, {}};
  for (std::size_t b = 1; b < blocks.size(); ++b) known.moments = merge(std::move(known.moments), blocks[b].moments);
  auto& by_block = known.by_block;
  by_block.blocks.count = static_cast<index_t>(blocks.size());
  by_block.blocks.as_stored = each_block;
  by_block.k.resize(known.moments.k.size());
  if (each_block) by_block.q.resize(known.moments.q.size());
  for (auto& block : blocks) {
    for (std::size_t h = 0; h < by_block.k.size(); ++h)
      by_block.k[h].push_back({std::move(block.moments.k[h].total), std::move(block.k_differences[h]), block.k_pairs});
    for (std::size_t h = 0; h < by_block.q.size(); ++h) {
      auto& total = block.moments.q[h].total;
      std::vector<double> none(total.xx.size());
      by_block.q[h].push_back({std::move(total), std::move(none), 0});
    }
  }
  return known;
}

/// Facts about a layer that `analyse_layer` needs besides its rows.
struct layer_request {
  layer_names names;
  bucket_edges buckets;
  index_t context_length = 0;                  ///< tokens
  index_t document_block = 1;                  ///< documents that count together, see `fold_documents`; 1: each alone
  std::optional<known_moments> every_token{};  ///< moments of more rows, which replace those of the rows
  std::vector<std::int32_t> documents{};       ///< of all layers, for equal blocks in each; empty: this layer's
};

/// Runs the analyses on every head of one layer, whose rows come in one or several shards: `shards(f)` calls
/// f(layer_view<T>) for each shard, each time it is called. All keys of a document must be in one shard; the query
/// models are those of all shards. Returns a report per query head.
template <class T, context Context, class Shards>
std::vector<head_report> analyse_layer(Context& ctx, const Shards& shards, layer_request layer,
                                       const analysis_options& options);

/// Runs the analyses on rows in the memory of the context, which may be a device's.
template <context Context, class T, memory_space S>
std::vector<head_report> analyse_layer(Context& ctx, const layer_view<T, S>& rows, const layer_names& names,
                                       const bucket_edges& buckets, index_t context_length,
                                       const analysis_options& options);

namespace detail {

/// Returns the reports of a layer's heads with their names alone. `key_of_query`: index into `names.key_heads` by query
/// head; `window` in tokens.
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

/// Adds PCA and rotation to the reports of a layer's query heads; with `by_block.q` also their replicates without each
/// block of documents. Slopes per context are for `context_length` tokens unless the options give another length.
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

/// Fits the query models of the options, (covariances)(heads).
template <context Context>
std::vector<std::vector<query_model>> fit_query_models(Context& ctx, const layer_moments& moments,
                                                       const analysis_options& options) {
  require(!options.covariances.empty(), "covariances: name at least one query model");
  std::vector<std::vector<query_model>> models;
  for (const covariance_kind kind : options.covariances)
    models.push_back(fit_queries(ctx, moments, {kind, options.position, options.no_drift}));
  return models;
}

/// Pair set of all pairs, or of drawn ones if `draw.pairs` is above 0.
struct chosen_pairs {
  bool across_documents = false;
  pair_sample draw{};
  bool documents_weigh_same = false;
  pair_weight weight() const { return {}; }
  pair_sample sample() const { return draw; }
};

template <context Context, class T, memory_space S, pair_set Pairs>
std::vector<std::vector<plasticity_profile_result>> profiles_over(Context& ctx, prepared_layer<T, S>& rows,
                                                                  const std::vector<std::vector<query_model>>& models,
                                                                  const Pairs& pairs, const analysis_options& options) {
  std::vector<std::vector<plasticity_profile_result>> found;
  for (std::size_t c = 0; c < models.size(); ++c)
    found.push_back(plasticity_profile(ctx, models[c], rows, pairs,
                                       {.heatmap = options.heatmap && c == 0,
                                        .heatmap_cell = options.heatmap_cell,
                                        .precision = options.precision,
                                        .terms = options.components && c == 0}));
  return found;
}

/// Computes profiles of a layer's heads under every query model over the pairs of keys of one shard,
/// (covariances)(heads). Drawn pairs differ between layers and between shards.
template <context Context, class T, memory_space S>
std::vector<std::vector<plasticity_profile_result>> profiles_of_shard(
    Context& ctx, prepared_layer<T, S>& rows, const std::vector<std::vector<query_model>>& models, index_t layer,
    std::uint32_t shard, const analysis_options& options) {
  const pair_sample draw{options.sampled_pairs, options.seed, static_cast<std::uint32_t>(layer) + (shard << 16)};
  if (options.weighting == pair_weighting::prefix_uniform)
    return profiles_over(ctx, rows, models, prefix_uniform{options.across_documents}, options);
  const bool documents_weigh_same = options.weighting == pair_weighting::documents;
  return profiles_over(ctx, rows, models, chosen_pairs{options.across_documents, draw, documents_weigh_same}, options);
}

/// Adds the drift terms of the headline query models to the reports.
inline void add_drift(const std::vector<query_model>& headline, std::vector<head_report>& heads) {
  for (std::size_t h = 0; h < heads.size(); ++h) {
    heads[h].alpha_pos = headline[h].alpha_pos;
    heads[h].beta_pos = headline[h].beta_pos;
    heads[h].sigma2_pos = headline[h].sigma2_pos;
    heads[h].r2_pos = headline[h].r2_pos;
  }
}

/// Statistics that one pass over the rows of a layer collects.
template <class T>
struct layer_statistics {
  layer_moments moments;
  std::optional<index_t> window;
  index_t queries = 0, keys = 0;
  typename observed_queries<T>::rows observed;
  layer_blocks by_block;
};

/// Collects moments of all shards of a layer, and their observed queries if they lie in host memory; moments by block
/// of documents too if geometry is wanted. Takes `every_token` and `documents` out of `layer`.
template <class T, memory_space S, context Context, class Shards>
layer_statistics<T> collect(Context& ctx, const Shards& shards, layer_request& layer, const analysis_options& options) {
  const edge_buckets grid{layer.buckets.edges()};
  auto documents = std::move(layer.documents);
  layer_statistics<T> s;
  observed_queries<T> observed(layer.buckets, empirical_options{}.max_queries, options.seed);
  std::vector<std::int32_t> own;
  bool first = true;
  shards([&](const layer_view<T, S>& shard) {
    if (!layer.every_token) {
      auto m = accumulate(ctx, shard, grid, {.context_length = layer.context_length});
      s.moments = first ? std::move(m) : merge(std::move(s.moments), m);
    }
    first = false;
    s.window = shard.window;
    s.queries += shard.q.rows;
    s.keys += shard.k.rows;
    if constexpr (S == memory_space::host)
      if (options.plasticity && options.empirical) observed.add(shard);
    if (documents.empty()) add_documents(ctx, shard, own);
  });
  if (S == memory_space::host && options.plasticity && options.empirical) s.observed = observed.take();
  if (documents.empty()) documents = std::move(own);
  if (layer.every_token) {
    s.moments = std::move(layer.every_token->moments);
    // Observed queries get the models' positions, so that windows admit the same keys.
    for (std::size_t b = 0; b < s.observed.mean_position.size(); ++b)
      s.observed.mean_position[b] = s.moments.q.at(0).bucket.at(b).mean_t;
    s.by_block = std::move(layer.every_token->by_block);
    s.by_block.blocks.document = blocks_of(std::move(documents), 1).document;
    return s;
  }
  if (!options.geometry) return s;
  s.by_block.blocks = blocks_of(std::move(documents), std::max<index_t>(1, options.geometry_blocks));
  shards([&](const layer_view<T, S>& shard) { s.by_block.add(ctx, shard, options.geometry_blocks > 1); });
  return s;
}

/// Computes profiles of the observed queries of all shards over the keys of one; a device has this shard alone.
template <context Context, class T, memory_space S>
std::vector<plasticity_profile_result> observed_profiles(Context& ctx, const layer_statistics<T>& s,
                                                         prepared_layer<T, S>& shard, const bucket_edges& edges,
                                                         const analysis_options& options) {
  const empirical_options how{.seed = options.seed,
                              .position = options.position,
                              .across_documents = options.across_documents,
                              .precision = options.precision};
  if constexpr (S == memory_space::host)
    return empirical_profile(ctx, s.observed, shard, edges, how);
  else
    return empirical_profile(ctx, shard, edge_buckets{edges.edges()}, edges.edges().back(), how);
}

/// Adds profiles under every query model, and of the observed queries, over the keys of all shards. Each shard draws
/// its own pairs.
template <class T, memory_space S, context Context, class Shards>
void add_profiles(Context& ctx, const Shards& shards, const layer_statistics<T>& s, const layer_request& layer,
                  const analysis_options& options, std::vector<head_report>& heads) {
  const auto models = fit_query_models(ctx, s.moments, options);
  const auto add = [&](std::optional<plasticity_profile_result>& all, plasticity_profile_result&& more) {
    fold_documents(more, layer.document_block);
    all = all ? merge(std::move(*all), more) : std::move(more);
  };
  std::vector<std::vector<std::optional<plasticity_profile_result>>> profiles(models.size());
  for (auto& p : profiles) p.resize(heads.size());
  std::uint32_t number = 0;
  shards([&](const layer_view<T, S>& shard) {
    prepared_layer keys(ctx, shard);
    auto found = profiles_of_shard(ctx, keys, models, layer.names.layer, number++, options);
    for (std::size_t c = 0; c < models.size(); ++c)
      for (std::size_t h = 0; h < heads.size(); ++h) add(profiles[c][h], std::move(found[c][h]));
    if (!options.empirical) return;
    auto observed = observed_profiles(ctx, s, keys, layer.buckets, options);
    for (std::size_t h = 0; h < heads.size(); ++h) add(heads[h].empirical, std::move(observed[h]));
  });
  add_drift(models[0], heads);
  for (std::size_t h = 0; h < heads.size(); ++h)
    for (auto& p : profiles) heads[h].profiles.push_back(std::move(*p[h]));
}

/// Returns whether f32 scores of such rows lose digits: the mean lies 10^4 spreads from 0, or the spreads of two
/// coordinates differ by 10^5. Coordinates that do not vary have no say.
inline bool loses_digits_in_f32(const row_moments& rows) {
  double mean = 0, all = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  for (index_t i = 0; i < rows.dim(); ++i) {
    const double variance = rows.xx[static_cast<std::size_t>(rows.has_full_scatter() ? i * (rows.dim() + 1) : i)];
    mean += rows.mean[static_cast<std::size_t>(i)] * rows.mean[static_cast<std::size_t>(i)];
    all += variance;
    if (variance > 0) least = std::min(least, variance);
    most = std::max(most, variance);
  }
  return all > 0 && (mean * static_cast<double>(rows.count) > 1e8 * all || most > 1e10 * least);
}

template <class T, memory_space S, context Context, class Shards>
std::vector<head_report> reports_of_layer(Context& ctx, const Shards& shards, layer_request layer,
                                          analysis_options options) {
  const auto s = collect<T, S>(ctx, shards, layer, options);
  const auto strained = [](const std::vector<side_moments>& heads) {
    return std::any_of(heads.begin(), heads.end(), [](const auto& h) { return loses_digits_in_f32(h.total); });
  };
  if (!options.precision && (strained(s.moments.q) || strained(s.moments.k))) options.precision = pair_precision::f64;
  const index_t length = layer.context_length;
  auto heads = named_heads(layer.names, s.moments.key_of_query, s.window);
  for (auto& r : heads) {
    r.queries = s.queries;
    r.keys = s.keys;
  }
  if (options.geometry) add_geometry(ctx, s.moments, s.by_block, length, options, heads);
  if (!options.plasticity) return heads;
  require(options.sampled_pairs == 0 || options.weighting == pair_weighting::pairs,
          "drawn pairs count the same: either sampled_pairs or a weighting of pairs");
  require(options.sampled_pairs == 0 || options.sampled_pairs >= 2,
          "sampled_pairs must be 0 for all pairs, or at least 2 a query bucket, not ", options.sampled_pairs);
  add_profiles<T, S>(ctx, shards, s, layer, options, heads);
  for (auto& h : heads) {
    for (const auto& p : h.profiles) h.summaries.push_back(summarize(p, length));
    if (!h.empirical) continue;
    h.empirical_summary = summarize(*h.empirical, length);
    h.empirical_unbiased = summarize(unbiased(*h.empirical), length);
  }
  return heads;
}

}  // namespace detail

template <class T, context Context, class Shards>
std::vector<head_report> analyse_layer(Context& ctx, const Shards& shards, layer_request layer,
                                       const analysis_options& options) {
  return detail::reports_of_layer<T, memory_space::host>(ctx, shards, std::move(layer), options);
}

template <context Context, class T, memory_space S>
std::vector<head_report> analyse_layer(Context& ctx, const layer_view<T, S>& rows, const layer_names& names,
                                       const bucket_edges& buckets, index_t context_length,
                                       const analysis_options& options) {
  return detail::reports_of_layer<T, S>(
      ctx, [&](const auto& f) { f(rows); }, {.names = names, .buckets = buckets, .context_length = context_length},
      options);
}

}  // namespace qkgeom
