// SPDX-License-Identifier: MIT
#pragma once

#include "capture/forward/products/tiles.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// Returns the entries of a matrix w (out, in) in tiles, zero padded to multiples of 32: for each 32 rows and 32
/// entries, two tiles of 16 rows each. A tile has 16 lines, each with two consecutive entries of its 16 rows.
index_t tiles_size(index_t out, index_t in);

/// Puts one row of `in` f32 entries, which are bf16 values, into the tiles of a matrix.
void pack_row(index_t row, index_t in, const float* values, bf16* tiles);

/// Computes y (rows, out) = x (rows, in) w^T, x bf16 values held as f32, summed in f32 in the order of `in`. May be
/// called only where `tiles_available()`. `packed_x` is working memory.
void multiply_tiles(tile_unit unit, index_t rows, index_t out, index_t in, const float* x, index_t x_stride,
                    const bf16* tiles, float* y, index_t y_stride, tiles::line_vector<bf16>& packed_x);

}  // namespace qkgeom
