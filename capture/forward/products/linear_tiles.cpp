// SPDX-License-Identifier: MIT
#include "capture/forward/products/linear_tiles.hpp"

#include <algorithm>

#include "capture/forward/products/pair_products.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

constexpr index_t block = 32;                   // rows of w, rows of x, and entries of both that meet at a time
constexpr index_t half = block / 2;             // lines of a tile
constexpr index_t tile_entries = half * block;  // bf16 of a tile

index_t steps_of(index_t in) { return (in + block - 1) / block; }

}  // namespace

index_t tiles_size(index_t out, index_t in) { return round_up(out, block) * round_up(in, block); }

void pack_row(index_t row, index_t in, const float* values, bf16* tiles) {
  bf16* const to = tiles + (row / block * steps_of(in) * 2 + row % block / half) * tile_entries + row % half * 2;
  for (index_t i = 0; i < in; ++i)
    to[i / block * 2 * tile_entries + i % block / 2 * block + i % 2] = bf16::round(values[i]);
}

#if defined(QKGEOM_HAS_TILES)
namespace {

/// Packs x as first factors of tile products: for each 16 rows, for each 32 entries, a tile (16, 32). Missing rows are
/// zero.
QKGEOM_TILE_TARGET void pack_activations(index_t rows, index_t in, const float* x, index_t x_stride, bf16* to) {
  const index_t steps = steps_of(in);
  const auto line = [&](index_t r, index_t step) {
    return to + (r / half * steps + step) * tile_entries + r % half * block;
  };
  for (index_t r = 0; r < rows; ++r)
    for (index_t s = 0; s < steps; ++s) {
      const float* const from = x + r * x_stride + s * block;
      const index_t left = std::min(block, in - s * block);
      const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << left) - 1);
      const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask & 0xffff), from);
      const __m512 high =
          left > half ? _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + half) : _mm512_setzero_ps();
      _mm512_store_si512(line(r, s), (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
  for (index_t r = rows; r < round_up(rows, block); ++r)
    for (index_t s = 0; s < steps; ++s) std::fill_n(line(r, s), block, bf16{});
}

/// Computes c (32, 32) = 32 rows of x times 32 rows of w by products of pairs; `c_stride` in entries.
QKGEOM_TILE_TARGET inline void multiply_block_by_pairs(const bf16* x, const bf16* w, index_t steps, float* c,
                                                       index_t c_stride) {
  constexpr index_t together = 8;  // with two columns, sums that stay in registers and hide the latency
  const auto word = [w](index_t s, index_t pair, index_t v) { return w + (s * 2 + v) * tile_entries + pair * block; };
  for (index_t r = 0; r < block; r += together) {
    const bf16* const rows = x + r / half * steps * tile_entries + r % half * block;
    tiles::multiply_pairs<together, 2, true>(rows, block, tile_entries, steps, word, c + r * c_stride, c_stride);
  }
}

QKGEOM_TILE_TARGET inline void multiply_block_by_amx(const bf16* x, const bf16* w, index_t steps, float* c,
                                                     index_t c_stride) {
  const bf16* const x1 = x + steps * tile_entries;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  // Prefetches x from the second-level cache, a little ahead.
  const auto fetch = [](const bf16* tile) {
#pragma GCC unroll 16
    for (index_t line = 0; line < half; ++line) __builtin_prefetch(tile + line * block);
  };
  for (index_t s = 0; s < steps; ++s) {
    const index_t ahead = (s + 4) * tile_entries;
    if (s + 4 < steps) fetch(x + ahead);
    _tile_loadd(4, x + s * tile_entries, 64);
    _tile_loadd(6, w + s * 2 * tile_entries, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + (s * 2 + 1) * tile_entries, 64);
    _tile_dpbf16ps(1, 4, 7);
    if (s + 4 < steps) fetch(x1 + ahead);
    _tile_loadd(5, x1 + s * tile_entries, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_stride * 4);
  _tile_stored(1, c + half, c_stride * 4);
  _tile_stored(2, c + half * c_stride, c_stride * 4);
  _tile_stored(3, c + half * c_stride + half, c_stride * 4);
}

}  // namespace

QKGEOM_TILE_TARGET void multiply_tiles(tile_unit unit, index_t rows, index_t out, index_t in, const float* x,
                                       index_t x_stride, const bf16* tiles, float* y, index_t y_stride,
                                       tiles::line_vector<bf16>& packed_x) {
  const index_t steps = steps_of(in);
  const auto size = static_cast<std::size_t>(round_up(rows, block) * steps * block);
  if (packed_x.size() < size) packed_x.resize(size);
  pack_activations(rows, in, x, x_stride, packed_x.data());
  static constexpr tiles::tile_shapes shapes;
  const auto multiply_block = unit == tile_unit::amx ? multiply_block_by_amx : multiply_block_by_pairs;
  alignas(64) float part[block * block];
  tiles::begin(unit, shapes);
  tiles::stores_are_done();
  // 32 rows of w stay in the caches while all of x passes by.
  for (index_t o = 0; o < out; o += block)
    for (index_t r = 0; r < rows; r += block) {
      const bf16* const from = packed_x.data() + r * steps * block;
      const bf16* const w = tiles + o * steps * block;
      if (r + block <= rows && o + block <= out) {
        multiply_block(from, w, steps, y + r * y_stride + o, y_stride);
        continue;
      }
      multiply_block(from, w, steps, part, block);
      tiles::stores_are_done();
      for (index_t i = 0; i < std::min(block, rows - r); ++i)
        std::copy_n(part + i * block, std::min(block, out - o), y + (r + i) * y_stride + o);
    }
  tiles::end(unit);
  tiles::stores_are_done();
}
#else
void multiply_tiles(tile_unit, index_t, index_t, index_t, const float*, index_t, const bf16*, float*, index_t,
                    tiles::line_vector<bf16>&) {
  fail("this build has no tile products");
}
#endif

}  // namespace qkgeom
