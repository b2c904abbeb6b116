// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/stats/document_moments.hpp"

namespace qkgeom {

/// PCA and rotation of one head from all documents but one block.
struct geometry_replicate {
  pca_result pca;            ///< `components` emptied
  rotation_result rotation;  ///< axes emptied
};

/// PCA and rotation of a head without each block of documents. The `jackknife_error` of a number computed from them
/// includes the error of the axes.
struct geometry_replicates {
  document_blocks blocks;
  std::vector<geometry_replicate> without;  ///< (blocks)
};

/// Moments of each head of a layer by block of documents. Empty `q`: no block is left out.
struct layer_blocks {
  document_blocks blocks;
  std::vector<std::vector<block_moments>> q, k;  ///< (heads)(blocks)

  /// Adds rows of the layer; every document must be one of `blocks`.
  template <context Context, class T, memory_space S>
  void add(Context& ctx, const layer_view<T, S>& layer, bool queries) {
    const auto merge_into = [](auto& all, auto&& more) {
      if (all.empty()) {
        all = std::move(more);
        return;
      }
      for (std::size_t h = 0; h < all.size(); ++h)
        for (std::size_t b = 0; b < all[h].size(); ++b) merge(all[h][b], more[h][b]);
    };
    merge_into(k, moments_by_block(ctx, "k", layer.k, layer.k_position, layer.k_document, blocks));
    if (queries) merge_into(q, moments_by_block(ctx, "q", layer.q, layer.q_position, layer.q_document, blocks));
  }
};

/// Computes, for each query head of a layer, PCA and rotation without each block of documents; empty without
/// `by_block.q` or with fewer than two blocks. Also sets the exact spread of score differences of two keys of one
/// document in `planes`, the rotation of all rows (see `set_score_sd`).
template <context Context>
std::vector<geometry_replicates> geometry_without_blocks(Context& ctx, const layer_blocks& by_block,
                                                         const layer_moments& moments, const pca_options& pca_choice,
                                                         const rotation_options& rotation_choice,
                                                         std::vector<rotation_result>& planes) {
  const auto& blocks = by_block.blocks;
  const auto &queries = by_block.q, &keys = by_block.k;
  const auto mean_difference = [](const block_moments& m) {
    return dense::scaled(m.differences, m.pairs > 0 ? 1.0 / m.pairs : 0.0);
  };
  for (std::size_t h = 0; h < planes.size(); ++h) {
    const auto& side = keys[moments.key_of_query[h]];
    set_score_sd(planes[h], moments.q[h].total, mean_difference(merged_without(side, -1)));
  }
  std::vector<geometry_replicates> result(planes.size(), {blocks, {}});
  if (queries.empty() || blocks.count < 2) return result;
  for (index_t b = 0; b < blocks.count; ++b) {
    layer_moments rest{moments.buckets, {}, {}, moments.key_of_query};
    std::vector<block_moments> q(queries.size()), k(keys.size());
    ctx.for_each(static_cast<index_t>(q.size()), [&](index_t h) { q[h] = merged_without(queries[h], b); });
    ctx.for_each(static_cast<index_t>(k.size()), [&](index_t h) { k[h] = merged_without(keys[h], b); });
    if (q.empty() || q[0].rows.count == 0 || k[0].rows.count == 0) continue;  // this block has all rows of a side
    for (const auto& side : q) rest.q.push_back({side.rows, {}});
    for (const auto& side : k) rest.k.push_back({side.rows, {}});
    auto components = pca(ctx, rest, pca_choice);
    auto axes = planar_rotation(ctx, rest, rotation_choice);
    for (std::size_t h = 0; h < planes.size(); ++h) {
      const index_t key = moments.key_of_query[h];
      set_score_sd(axes[h], q[h].rows, mean_difference(k[key]));
      components[h].components.clear();
      axes[h].drift_axis.clear();
      axes[h].separation_axis.clear();
      result[h].without.push_back({std::move(components[h]), std::move(axes[h])});
    }
  }
  return result;
}

}  // namespace qkgeom
