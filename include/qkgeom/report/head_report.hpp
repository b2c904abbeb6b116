// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/rotation.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/geometry_errors.hpp"
#include "qkgeom/report/summary.hpp"

namespace qkgeom {

/// Which analyses run, and with what. Defaults are the thesis' choices.
struct analysis_options {
  index_t bucket_size = 0;              ///< query buckets, tokens; 0: the capture's own, or
                                        ///< a sixteenth of the context
  std::vector<index_t> bucket_edges{};  ///< query buckets by edges instead, tokens
  bool geometry = true;                 ///< PCA and rotation
  bool plasticity = true;               ///< profiles under every model of `covariances`, the
                                        ///< first is the headline
  std::vector<covariance_kind> covariances{covariance_kind::diagonal, covariance_kind::joint};
  bool empirical = true;         ///< the observed queries' own profile, the models' yardstick
  bool heatmap = true;           ///< of the headline model
  index_t heatmap_cell = 0;      ///< tokens; 0: the width of the first query bucket
  bool across_examples = false;  ///< pairs of keys of different examples too
  query_position position = query_position::middle;
  bool no_drift = false;
  pca_options pca{};
  rotation_options rotation{};
  index_t geometry_blocks = 0;  ///< PCA and rotation again without each of at
                                ///< most this many blocks of documents
  std::uint64_t seed = 0;       ///< for thinning the queries of the empirical form
};

/// Everything found about one query head.
struct head_report {
  index_t layer = 0, q_head = 0, k_head = 0;
  bool rope = true;                 ///< false: NoPE layer
  std::optional<index_t> window{};  ///< tokens
  index_t queries = 0, keys = 0;    ///< rows
  pca_result pca;                   ///< `components` emptied: they are d^2 numbers a head
  rotation_result rotation;
  geometry_replicates geometry{};  ///< the same with documents left out, if
                                   ///< `geometry_blocks` asks for it
  double alpha_pos = 0, beta_pos = 0, sigma2_pos = 0,
         r2_pos = 0;                                     ///< of the headline query model
  std::vector<plasticity_profile_result> profiles;       ///< one a covariance asked for
  std::vector<profile_summary> summaries;                ///< of `profiles`
  std::optional<plasticity_profile_result> empirical{};  ///< plug-in form
  std::optional<profile_summary> empirical_summary{}, empirical_unbiased{};
};

/// All heads of a capture.
struct model_report {
  std::string model;
  index_t context_length = 0;
  qkgeom::bucket_edges buckets;
  std::vector<head_report> heads;  ///< by layer, then query head
};

/// What a layer is called in a capture.
struct layer_names {
  index_t layer = 0;
  bool rope = true;
  std::vector<index_t> query_heads, key_heads;
};

/// Runs the analyses on every head of one layer. `context_length` in tokens.
template <class Context, class T, memory_space S>
std::vector<head_report> analyse_layer(Context& ctx, const layer_view<T, S>& layer, const layer_names& names,
                                       const bucket_edges& buckets, index_t context_length,
                                       const analysis_options& options) {
  const edge_buckets grid{buckets.edges()};
  const auto moments = accumulate(ctx, layer, grid, {.context_length = context_length});
  const auto n = static_cast<std::size_t>(layer.q.heads);
  std::vector<head_report> heads(n);
  for (std::size_t h = 0; h < n; ++h) {
    auto& r = heads[h];
    const auto key = static_cast<std::size_t>(layer.key_of_query[h]);
    r.layer = names.layer;
    r.q_head = names.query_heads[h];
    r.k_head = names.key_heads[key];
    r.rope = names.rope;
    r.window = layer.window;
    r.queries = layer.q.rows;
    r.keys = layer.k.rows;
  }
  if (options.geometry) {
    auto components = pca(ctx, moments, options.pca);
    auto rotation = options.rotation;
    rotation.context_length = context_length;
    auto planes = planar_rotation(ctx, moments, rotation);
    layer_blocks by_block{blocks_of(layer, std::max<index_t>(1, options.geometry_blocks)), {}, {}};
    by_block.add(ctx, layer, options.geometry_blocks > 1);
    auto replicates = geometry_without_blocks(ctx, by_block, moments, options.pca, rotation, planes);
    for (std::size_t h = 0; h < n; ++h) {
      heads[h].geometry = std::move(replicates[h]);
      heads[h].pca = std::move(components[h]);
      heads[h].pca.components.clear();
      heads[h].rotation = std::move(planes[h]);
    }
  }
  if (!options.plasticity) return heads;
  require(!options.covariances.empty(), "covariances: name at least one query model");
  for (std::size_t c = 0; c < options.covariances.size(); ++c) {
    const auto models = fit_queries(ctx, moments, {options.covariances[c], options.position, options.no_drift});
    auto profiles = plasticity_profile(ctx, models, layer, all_pairs{.across_examples = options.across_examples},
                                       {.heatmap = options.heatmap && c == 0, .heatmap_cell = options.heatmap_cell});
    for (std::size_t h = 0; h < n; ++h) {
      if (c == 0) {
        heads[h].alpha_pos = models[h].alpha_pos;
        heads[h].beta_pos = models[h].beta_pos;
        heads[h].sigma2_pos = models[h].sigma2_pos;
        heads[h].r2_pos = models[h].r2_pos;
      }
      heads[h].summaries.push_back(summarize(profiles[h], context_length));
      heads[h].profiles.push_back(std::move(profiles[h]));
    }
  }
  if (!options.empirical) return heads;
  auto observed = empirical_profile(
      ctx, layer, grid, context_length,
      {.seed = options.seed, .position = options.position, .across_examples = options.across_examples});
  for (std::size_t h = 0; h < n; ++h) {
    heads[h].empirical_summary = summarize(observed[h], context_length);
    heads[h].empirical_unbiased = summarize(unbiased(observed[h]), context_length);
    heads[h].empirical = std::move(observed[h]);
  }
  return heads;
}

}  // namespace qkgeom
