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

/// PCA and rotation of a head without each block of documents. The `jackknife_error` of any number that they give
/// includes the error of the axes.
struct geometry_replicates {
  document_blocks blocks;
  std::vector<geometry_replicate> without;  ///< (blocks)
};

/// Moments of each head of a layer by block of documents. `q` is empty where no block is to be left out.
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

/// For each query head of a layer, PCA and rotation without each block of documents; none without `by_block.q` or with
/// fewer than two blocks. Also puts the exact spread of score differences of two keys of one document into `planes`,
/// the rotation of all rows (see `set_score_sd`).
template <context Context>
std::vector<geometry_replicates> geometry_without_blocks(Context& ctx, const layer_blocks& by_block,
                                                         const layer_moments& moments, const pca_options& pca_choice,
                                                         const rotation_options& rotation_choice,
                                                         std::vector<rotation_result>& planes);

}  // namespace qkgeom

#include "qkgeom/report/detail/geometry_errors.hpp"
