// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// The steps of the analysis of one layer, for callers that hold its moments or its rows otherwise than
/// `analyse_layer`.

/// The reports of a layer's heads with their names and nothing else. `key_of_query`: index into `names.key_heads` by
/// query head; `window` in tokens.
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

/// Puts PCA and rotation into the reports of a layer's query heads; with `by_block.q` also their replicates without
/// each block of documents. Slopes per context are for `context_length` tokens unless the options give another.
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

/// The query models that the options ask for, (covariances)(heads).
template <context Context>
std::vector<std::vector<query_model>> fit_query_models(Context& ctx, const layer_moments& moments,
                                                       const analysis_options& options) {
  require(!options.covariances.empty(), "covariances: name at least one query model");
  std::vector<std::vector<query_model>> models;
  for (const covariance_kind kind : options.covariances)
    models.push_back(fit_queries(ctx, moments, {kind, options.position, options.no_drift}));
  return models;
}

/// Profiles of a layer's heads under every query model over the pairs of keys of one shard, (covariances)(heads). Drawn
/// pairs differ between layers and between numbers of shards.
template <context Context, class T, memory_space S>
std::vector<std::vector<plasticity_profile_result>> profiles_of_shard(
    Context& ctx, prepared_layer<T, S>& rows, const std::vector<std::vector<query_model>>& models, index_t layer,
    std::uint32_t shard, const analysis_options& options);

/// Puts the drift terms of the headline query models into the reports.
inline void add_drift(const std::vector<query_model>& headline, std::vector<head_report>& heads) {
  for (std::size_t h = 0; h < heads.size(); ++h) {
    heads[h].alpha_pos = headline[h].alpha_pos;
    heads[h].beta_pos = headline[h].beta_pos;
    heads[h].sigma2_pos = headline[h].sigma2_pos;
    heads[h].r2_pos = headline[h].r2_pos;
  }
}

}  // namespace qkgeom

#include "qkgeom/report/detail/analysis_steps.hpp"
