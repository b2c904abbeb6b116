// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/tile_math.hpp"
#include "qkgeom/backend/detail/tile_plan.hpp"

/// What the fused pair kernel is given.
namespace qkgeom::cuda_kernels {

using tile::sum_span;
using tile::tile_plan;
using tile::tile_side;
using tile::tile_span;

inline constexpr int tile_threads = 256, stage_k = 32, row_padding = 8;
inline constexpr int stage_row = stage_k + row_padding;  // 80 bytes: eight rows of ldmatrix hit all banks once
inline constexpr int operand_elements = tile_side * stage_row;

/// Keys of a launch: laws lie one after the other, each with the same n keys and `width` columns (a multiple of
/// stage_k).
struct tile_keys {
  const bf16 *high, *low;     ///< (laws, n, width)
  const float *norm, *score;  ///< (laws, n)
  const std::int32_t* group;  ///< (n)
  const std::int32_t* position;
  index_t n;
  int width;
};

/// What a law admits, and where its query stands.
struct tile_law {
  double after, tau;
  index_t before;
  index_t problem;  ///< whose heatmap it adds to
};

/// Heatmaps in fixed point, so that atomic sums depend on no order: (problems, cells) sums of 2^30 times the plasticity
/// and numbers of pairs.
inline constexpr double heat_unit = 1073741824.0;
struct tile_heat {
  unsigned long long *sum, *count;
  backend::heatmap_cells cells;
};

/// Where sums go: by tile for large groups, by key for small ones, all in f64.
struct tile_sums {
  double* tile;
  double* key;  ///< (laws, n)
};

/// Launches the pair kernel, one block a tile from `first_tile` on. `split`: f32-faithful products; `with_heat`: fills
/// the heatmaps too.
QKGEOM_INLINE void launch_tiles(bool split, bool with_heat, unsigned blocks, const tile_keys& keys,
                                const tile_law* laws, const tile_span* spans, index_t n_spans, index_t first_tile,
                                const tile_sums& out, const tile_heat& heat, cudaStream_t stream);

/// to[i] = the sum of span i.
QKGEOM_INLINE void launch_sums(const sum_span* spans, index_t n, const tile_sums& from, double* to,
                               cudaStream_t stream);

}  // namespace qkgeom::cuda_kernels

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/backend/detail/cuda_tile_kernel.cuh"
#endif
