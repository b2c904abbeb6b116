// SPDX-License-Identifier: MIT
#include "capture/forward/products/linear_panels.hpp"

#include <algorithm>
#include <vector>

#include "capture/forward/products/tiles.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/instruction_set.hpp"

namespace qkgeom {
namespace {

constexpr index_t lanes = 16, vectors = 3, panel = vectors * lanes;
constexpr index_t together = 8;  // rows of x: with a panel's columns, 24 sums in registers

}  // namespace

index_t panels_size(index_t out, index_t in) { return round_up(out, panel) * in; }

void pack_rows(index_t first, index_t count, index_t in, const float* rows, float* panels) {
  for (index_t r = first, end = 0; r < first + count; r = end) {
    const index_t begin = r / panel * panel;
    end = std::min(begin + panel, first + count);
    const float* const from = rows + (r - first) * in;
    float* to = panels + begin * in + (r - begin);
    for (index_t i = 0; i < in; ++i, to += panel)
      for (index_t c = 0; c < end - r; ++c) to[c] = from[c * in + i];
  }
}

#if defined(QKGEOM_HAS_TILES)
#define QKGEOM_PANEL_TARGET __attribute__((target("avx512f")))

bool panels_available() { return used_instruction_set() >= instruction_set::v4; }

namespace {

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

void multiply_panels(index_t, index_t, index_t, const float*, index_t, const float*, float*, index_t) {
  fail("this build has no products of panels");
}
#endif

}  // namespace qkgeom
