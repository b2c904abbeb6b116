// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/report/geometry_errors.hpp"

namespace qkgeom {

/// Moments of a layer that were taken elsewhere, over the query buckets of the analysis.
struct known_moments {
  layer_moments moments;
  layer_blocks by_block;  ///< `blocks.document` is not needed
};

/// Merges the moments of a layer's blocks, as `set_moments::read` gives them. `each_block` keeps the blocks apart too,
/// for the errors of PCA and rotation.
QKGEOM_INLINE known_moments known_moments_of(std::vector<token_moments> blocks, bool each_block);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/report/detail/known_moments.hpp"
#endif
