// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "qkgeom/backend/detail/simd.hpp"
#include "qkgeom/core/pair_formula.hpp"

namespace qkgeom::cpu {

/// 4 Phi(z) Phi(-z) for u = z^2 = m^2 / v, f32 lanes. PP is an entire function of u; with PP = exp(-u/2) g(u), g
/// is a polynomial in s = 2u / (15 + 2u), fitted to 2.0e-8 on [0, 80]; one division serves u and s. Absolute error at most
/// 2e-7 (tested), never negative. v must be of order 1; anything below 1e-18 counts as equal keys (1 if m = 0, else 0).
inline vec<float> plasticity_lanes(vec<float> m, vec<float> v) {
  constexpr float share = 2.0f / 15.0f;
  const vec<float> smallest = splat(1e-18f), largest = splat(1e16f), end = splat(80.0f);
  v = v > smallest ? v : smallest;
  vec<float> a = m * m;
  a = a < largest ? a : largest;
  const vec<float> w = v + a * share;
  const vec<float> ar = a * (1.0f / (v * w));
  vec<float> u = ar * w;
  u = u < end ? u : end;
  const vec<float> s = ar * v * share;
  vec<float> g = s * -0.24982483742946232f + 0.05913400789224213f;
  g = g * s + 0.05678951573554412f;
  g = g * s + 0.19509401396998058f;
  g = g * s + 0.038098639979193896f;
  g = g * s - 1.0246446959440765f;
  g = g * s + 1.0f;
  // 2^y = 2^k 2^f, k = round(y) by adding 1.5 2^23, which leaves k in the low bits.
  const vec<float> y = u * -0.72134752044448169f;
  const vec<float> shifted = y + 12582912.0f;
  const vec<float> f = y - (shifted - 12582912.0f);
  vec<float> p = f * 0.0013264727186629202f + 0.00967151264040196f;
  p = p * f + 0.05550733743287164f;
  p = p * f + 0.24022242085358653f;
  p = p * f + 0.6931469775991391f;
  p = p * f + 1.0f;
  using bits = typename simd<float>::mask;
  bits exponent, mantissa;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  std::memcpy(&mantissa, &p, sizeof mantissa);
  mantissa += exponent << 23;
  std::memcpy(&p, &mantissa, sizeof p);
  return p * g;
}

/// The same for doubles, through the C library's erfc.
inline vec<double> plasticity_lanes(vec<double> m, vec<double> v) {
  vec<double> p;
  for (int i = 0; i < lanes<double>; ++i) p[i] = pair_plasticity(m[i], v[i]);
  return p;
}

/// out(rows, lanes) = rows(rows, d) * coefficients(d, width), width a multiple of the lanes, `rows` at most block_rows.
inline constexpr int block_rows = 8;
template <class F>
inline void rows_times_lanes(const F* rows, index_t row_stride, index_t d, const F* coefficients, index_t width, F* out) {
  for (index_t j = 0; j < width; j += lanes<F>) {
    vec<F> sum[block_rows] = {};
    const F* c = coefficients + j;
    for (index_t i = 0; i < d; ++i, c += width) {
      const vec<F> b = load(c);
#pragma GCC unroll 8
      for (int r = 0; r < block_rows; ++r) sum[r] += b * rows[r * row_stride + i];
    }
    for (int r = 0; r < block_rows; ++r) store(out + r * width + j, sum[r]);
  }
}

}  // namespace qkgeom::cpu
