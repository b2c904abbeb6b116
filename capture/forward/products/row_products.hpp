// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "capture/forward/products/blas.hpp"
#include "capture/forward/products/simd.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Transposes a square of vectors: log2(lanes) times, vectors half a square apart are interleaved.
inline void transpose(simd::floats (&x)[simd::lanes]) {
  using simd::floats, simd::lanes;
  for (int n = 1; n < lanes; n *= 2) {
    floats y[lanes];
    [&]<int... I>(std::integer_sequence<int, I...>) {
      simd::unrolled<lanes / 2>([&](auto i) {
        y[2 * i] = __builtin_shufflevector(x[i], x[i + lanes / 2], (I / 2 + I % 2 * lanes)...);
        y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + lanes / 2], (lanes / 2 + I / 2 + I % 2 * lanes)...);
      });
    }
    (std::make_integer_sequence<int, lanes>{});
    std::copy(y, y + lanes, x);
  }
}

/// Computes y (rows, out) = x (rows, in) w^T as `multiply_transposed`, for rows as short as a head's, where the results
/// are most of what moves: each is written once. Columns of y are computed some vectors at a time, from rows of w that
/// are transposed once for all rows of x.
inline void multiply_short_rows(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* w,
                                index_t w_stride, float* y, index_t y_stride) {
  using simd::floats, simd::lanes;
  constexpr int vectors = simd::registers == 32 ? 3 : 2, tile = simd::registers == 32 ? 8 : 4;
  constexpr index_t width = vectors * lanes;
  if (lanes == 4 || in % lanes != 0)  // a build for every CPU has short vectors only, BLAS has all
    return multiply_transposed(rows, out, in, x, x_stride, w, w_stride, y, y_stride);
  std::vector<float> panel(static_cast<std::size_t>(in * width));
  for (index_t j = 0; j < out; j += width) {
    const index_t here = std::min(width, out - j);
    for (int v = 0; v < vectors; ++v)
      for (index_t c = 0; c < in; c += lanes) {
        floats square[lanes];
        for (int l = 0; l < lanes; ++l)
          square[l] = simd::load(w + std::min<index_t>(j + v * lanes + l, out - 1) * w_stride + c);
        transpose(square);
        for (int l = 0; l < lanes; ++l) simd::store(panel.data() + (c + l) * width + v * lanes, square[l]);
      }
    for (index_t i = 0; i < rows; i += tile) {
      const float* row[tile];
      for (int r = 0; r < tile; ++r) row[r] = x + std::min<index_t>(i + r, rows - 1) * x_stride;
      floats sum[tile][vectors] = {};
      for (index_t c = 0; c < in; ++c) {
        floats b[vectors];
        simd::unrolled<vectors>([&](auto v) { b[v] = simd::load(panel.data() + c * width + v * lanes); });
        simd::unrolled<tile>([&](auto r) {
          const float a = row[r][c];
          simd::unrolled<vectors>([&](auto v) { sum[r][v] += a * b[v]; });
        });
      }
      for (int r = 0; r < tile && i + r < rows; ++r) {
        float results[width];
        float* const to = y + (i + r) * y_stride + j;
        simd::unrolled<vectors>([&](auto v) { simd::store((here == width ? to : results) + v * lanes, sum[r][v]); });
        if (here < width) std::copy_n(results, here, to);
      }
    }
  }
}

}  // namespace qkgeom
