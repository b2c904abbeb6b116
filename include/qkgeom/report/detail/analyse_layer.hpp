// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/analyse_layer.hpp"
#include "qkgeom/report/analysis_steps.hpp"

namespace qkgeom {

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

/// Moments of all shards of a layer, and their observed queries if they lie in host memory; moments by block of
/// documents too if geometry is asked for. Takes `every_token` and `documents` out of `layer`.
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
      if (options.plasticity && options.empirical) observed.add(ctx, shard);
    if (documents.empty()) add_documents(ctx, shard, own);
  });
  if (S == memory_space::host && options.plasticity && options.empirical) s.observed = observed.take(ctx);
  if constexpr (spreads_documents<Context>) {
    index_t queries = 0, keys = 0;
    for (const auto& [q, k] : ctx.of_all(std::vector{std::array{s.queries, s.keys}})) {
      queries += q;
      keys += k;
    }
    s.queries = queries;
    s.keys = keys;
  }
  if (documents.empty()) documents = std::move(own);
  if (layer.every_token) {
    s.moments = std::move(layer.every_token->moments);
    // Observed queries stand where the models' do, so that windows admit the same keys.
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

/// Profiles of the observed queries of all shards over the keys of one; on a device those of this shard, the only one.
template <context Context, class T, memory_space S>
std::vector<plasticity_profile_result> observed_profiles(Context& ctx, const layer_statistics<T>& s,
                                                         prepared_layer<T, S>& shard, const bucket_edges& edges,
                                                         const analysis_options& options) {
  if constexpr (S == memory_space::host)
    return empirical_profile(ctx, s.observed, shard, edges,
                             {options.position, options.across_documents, options.precision});
  else
    return empirical_profile(ctx, shard, edge_buckets{edges.edges()}, edges.edges().back(),
                             {.seed = options.seed,
                              .position = options.position,
                              .across_documents = options.across_documents,
                              .precision = options.precision});
}

/// Profiles under every query model, and of the observed queries, over the keys of all shards. Each shard draws pairs
/// of its own.
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

template <class T, memory_space S, context Context, class Shards>
std::vector<head_report> reports_of_layer(Context& ctx, const Shards& shards, layer_request layer,
                                          const analysis_options& options) {
  const auto s = collect<T, S>(ctx, shards, layer, options);
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
