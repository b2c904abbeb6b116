// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/report/analysis_steps.hpp"

namespace qkgeom {

namespace detail {

/// All pairs, or drawn ones if `draw.pairs` is above 0.
struct chosen_pairs {
  bool across_documents = false;
  pair_sample draw{};
  bool documents_weigh_same = false;
  pair_weight weight() const { return {}; }
  pair_sample sample() const { return draw; }
};

/// `prefix_uniform` with what the options draw, which every context refuses: drawn pairs count the same.
struct chosen_prefixes : prefix_uniform {
  pair_sample draw{};
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

}  // namespace detail

template <context Context, class T, memory_space S>
std::vector<std::vector<plasticity_profile_result>> profiles_of_shard(
    Context& ctx, prepared_layer<T, S>& rows, const std::vector<std::vector<query_model>>& models, index_t layer,
    std::uint32_t shard, const analysis_options& options) {
  const pair_sample draw{options.sampled_pairs, options.seed, static_cast<std::uint32_t>(layer) + (shard << 16)};
  if (options.weighting == pair_weighting::prefix_uniform)
    return detail::profiles_over(ctx, rows, models, detail::chosen_prefixes{{options.across_documents}, draw}, options);
  const bool documents_weigh_same = options.weighting == pair_weighting::documents;
  return detail::profiles_over(ctx, rows, models,
                               detail::chosen_pairs{options.across_documents, draw, documents_weigh_same}, options);
}

}  // namespace qkgeom
