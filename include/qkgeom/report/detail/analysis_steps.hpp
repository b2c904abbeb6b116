// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/report/analysis_steps.hpp"

namespace qkgeom {

namespace detail {

/// The pair set that the options ask for: `all_pairs` or `prefix_uniform`, or `sampled` if `draw.pairs` is above 0.
struct chosen_pairs {
  bool across_documents = false;
  pair_sample draw{};
  pair_weighting weighting = pair_weighting::pairs;
  bool documents_weigh_same = weighting != pair_weighting::pairs;
  pair_weight weight() const {
    return weighting == pair_weighting::prefix_uniform ? prefix_uniform{}.weight() : pair_weight{};
  }
  pair_sample sample() const { return draw; }
};

}  // namespace detail

template <context Context, class T, memory_space S>
std::vector<std::vector<plasticity_profile_result>> profiles_of_shard(
    Context& ctx, const layer_view<T, S>& rows, const std::vector<std::vector<query_model>>& models, index_t layer,
    std::uint32_t shard, const analysis_options& options) {
  const detail::chosen_pairs pairs{
      options.across_documents,
      {options.sampled_pairs, options.seed, static_cast<std::uint32_t>(layer) + (shard << 16)},
      options.weighting};
  std::vector<std::vector<plasticity_profile_result>> found;
  for (std::size_t c = 0; c < models.size(); ++c)
    found.push_back(plasticity_profile(ctx, models[c], rows, pairs,
                                       {.heatmap = options.heatmap && c == 0,
                                        .heatmap_cell = options.heatmap_cell,
                                        .precision = options.precision,
                                        .terms = options.components && c == 0}));
  return found;
}

}  // namespace qkgeom
