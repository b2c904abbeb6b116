// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstring>

#include "capture/forward/products/tiles.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

#if defined(QKGEOM_HAS_TILES)
namespace qkgeom::tiles {

/// Multiplies a (rows, 32 steps) by b (32 steps, columns of 16), by products of pairs. `Fresh` sets c (rows, columns),
/// else the product is added to it. The rows of a lie `a_row` bf16 apart and its steps `a_step`; a 32-bit word of b
/// holds two consecutive rows of a column, and a step 16 pairs of rows. `word(step, pair, column)` is the address of 16
/// columns.
template <index_t Rows, index_t Columns, bool Fresh, class Word>
QKGEOM_TILE_TARGET inline void multiply_pairs(const bf16* a, index_t a_row, index_t a_step, index_t steps,
                                              const Word& word, float* c, index_t c_stride) {
  __m512 sum[Rows][Columns];
#pragma GCC unroll 8
  for (index_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (index_t v = 0; v < Columns; ++v)
      sum[r][v] = Fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(c + r * c_stride + v * tile);
  for (index_t s = 0; s < steps; ++s)
    for (index_t p = 0; p < channels / 2; ++p) {
      __m512bh right[Columns];
#pragma GCC unroll 4
      for (index_t v = 0; v < Columns; ++v) right[v] = (__m512bh)_mm512_loadu_si512(word(s, p, v));
#pragma GCC unroll 8
      for (index_t r = 0; r < Rows; ++r) {
        std::int32_t pair;
        std::memcpy(&pair, a + r * a_row + s * a_step + 2 * p, sizeof pair);
        const auto left = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
        for (index_t v = 0; v < Columns; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
      }
    }
#pragma GCC unroll 8
  for (index_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (index_t v = 0; v < Columns; ++v) _mm512_storeu_ps(c + r * c_stride + v * tile, sum[r][v]);
}

}  // namespace qkgeom::tiles
#endif
