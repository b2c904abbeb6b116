// SPDX-License-Identifier: MIT
#include "capture/forward/products/linear_panels.hpp"

#include <algorithm>
#include <vector>

#include "capture/forward/products/tiles.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/instruction_set.hpp"

namespace qkgeom {
namespace {

constexpr index_t lanes = 16, panel = panel_rows;
constexpr index_t together = 8;  // rows of x: with a panel's columns, 24 sums in registers

}  // namespace

index_t panels_size(index_t out, index_t in) { return round_up(out, panel) * in; }

#if defined(QKGEOM_HAS_TILES)
#define QKGEOM_PANEL_TARGET __attribute__((target("avx512f")))

bool panels_available() { return used_instruction_set() >= instruction_set::v4; }

namespace {

/// Writes a square of entries transposed: four times, rows half a square apart are interleaved.
QKGEOM_PANEL_TARGET void pack_square(const float* from, index_t stride, float* to) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  __m512 x[2][lanes];
#pragma GCC unroll 16
  for (index_t c = 0; c < lanes; ++c) x[0][c] = _mm512_loadu_ps(from + c * stride);
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step)
#pragma GCC unroll 8
    for (index_t c = 0; c < lanes / 2; ++c) {
      const __m512 a = x[step % 2][c], b = x[step % 2][c + lanes / 2];
      x[1 - step % 2][2 * c] = _mm512_permutex2var_ps(a, low, b);
      x[1 - step % 2][2 * c + 1] = _mm512_permutex2var_ps(a, high, b);
    }
#pragma GCC unroll 16
  for (index_t i = 0; i < lanes; ++i) _mm512_storeu_ps(to + i * panel, x[0][i]);
}

/// Computes y (Rows, Columns vectors) = x (Rows, in) w; with `adds` the product is added to y.
template <index_t Rows, index_t Columns>
QKGEOM_PANEL_TARGET void multiply_block(index_t in, const float* x, index_t x_stride, const float* w, bool adds,
                                        float* y, index_t y_stride) {
  // y may have left the caches: fetch its lines while the sums are computed.
  for (index_t r = 0; r < Rows; ++r) {
    for (index_t v = 0; v < Columns; ++v) __builtin_prefetch(y + r * y_stride + v * lanes, 1);
    __builtin_prefetch(y + r * y_stride + Columns * lanes - 1, 1);
  }
  __m512 sum[Rows][Columns];
#pragma GCC unroll 8
  for (index_t r = 0; r < Rows; ++r)
#pragma GCC unroll 3
    for (index_t v = 0; v < Columns; ++v)
      sum[r][v] = adds ? _mm512_loadu_ps(y + r * y_stride + v * lanes) : _mm512_setzero_ps();
  for (index_t i = 0; i < in; ++i, w += panel) {
    __m512 right[Columns];
#pragma GCC unroll 3
    for (index_t v = 0; v < Columns; ++v) right[v] = _mm512_loadu_ps(w + v * lanes);
#pragma GCC unroll 8
    for (index_t r = 0; r < Rows; ++r) {
      const __m512 left = _mm512_set1_ps(x[r * x_stride + i]);
#pragma GCC unroll 3
      for (index_t v = 0; v < Columns; ++v) sum[r][v] = _mm512_fmadd_ps(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (index_t r = 0; r < Rows; ++r)
#pragma GCC unroll 3
    for (index_t v = 0; v < Columns; ++v) _mm512_storeu_ps(y + r * y_stride + v * lanes, sum[r][v]);
}

/// Multiplies all rows by one panel, `Rows` at a time, then fewer.
template <index_t Columns, index_t Rows = together>
QKGEOM_PANEL_TARGET void multiply_panel(index_t rows, index_t in, const float* x, index_t x_stride, const float* w,
                                        bool adds, float* y, index_t y_stride) {
  for (; rows >= Rows; rows -= Rows, x += Rows * x_stride, y += Rows * y_stride)
    multiply_block<Rows, Columns>(in, x, x_stride, w, adds, y, y_stride);
  if constexpr (Rows > 1) multiply_panel<Columns, Rows / 2>(rows, in, x, x_stride, w, adds, y, y_stride);
}

}  // namespace

void pack_rows(index_t first, index_t count, index_t in, const float* rows, index_t stride, float* panels) {
  for (index_t r = first, end = 0; r < first + count; r = end) {
    const index_t begin = r / panel * panel;
    end = std::min(begin + panel, first + count);
    const float* const from = rows + (r - first) * stride;
    float* const to = panels + begin * in + (r - begin);
    for (index_t c = 0; c < end - r; c += lanes)
      for (index_t i = 0; i < in; i += lanes) {
        if (c + lanes <= end - r && i + lanes <= in) {
          pack_square(from + c * stride + i, stride, to + i * panel + c);
          continue;
        }
        for (index_t j = i; j < std::min(i + lanes, in); ++j)
          for (index_t l = c; l < std::min(c + lanes, end - r); ++l) to[j * panel + l] = from[l * stride + j];
      }
  }
}

QKGEOM_PANEL_TARGET void multiply_panels(index_t rows, index_t out, index_t in, const float* x, index_t x_stride,
                                         const float* panels, float* y, index_t y_stride) {
  constexpr index_t deep = 2048;  // entries of a panel that lie in the second-level cache while all of x passes by
  constexpr decltype(&multiply_panel<1>) kernels[] = {multiply_panel<1>, multiply_panel<2>, multiply_panel<3>};
  std::vector<float> rest;
  for (index_t o = 0; o < out; o += panel) {
    const index_t real = std::min(panel, out - o), columns = round_up(real, lanes);
    float* to = y + o;
    index_t stride = y_stride;
    if (real < columns) {
      rest.resize(rows * columns);
      to = rest.data(), stride = columns;
    }
    for (index_t i = 0; i < in; i += deep)
      kernels[columns / lanes - 1](rows, std::min(deep, in - i), x + i, x_stride, panels + o * in + i * panel, i > 0,
                                   to, stride);
    for (index_t r = 0; real < columns && r < rows; ++r)
      std::copy_n(rest.data() + r * columns, real, y + r * y_stride + o);
  }
}
#else
bool panels_available() { return false; }

void pack_rows(index_t, index_t, index_t, const float*, index_t, float*) { fail("this build has no panels"); }

void multiply_panels(index_t, index_t, index_t, const float*, index_t, const float*, float*, index_t) {
  fail("this build has no products of panels");
}
#endif

}  // namespace qkgeom
