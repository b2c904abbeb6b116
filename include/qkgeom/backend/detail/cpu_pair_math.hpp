// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "qkgeom/backend/detail/simd.hpp"
#include "qkgeom/core/pair_formula.hpp"

namespace qkgeom::cpu {

/// 4 Phi(z) Phi(-z) for u = z^2 = m^2 / v, f32 lanes, as a function of s = 2u / (15 + 2u) in [0, 1), which needs one
/// division and no square root. Absolute error at most 2e-7 (tested), never negative. v must be of order 1 and not
/// below 1e-18, |m| below 1e18.
#if defined(__AVX512F__)
namespace detail {
/// Quartics on 16 intervals around s = k / 15, by power of 15 s - k: error 1.7e-8; 0 from u = 37 on, where PP < 2e-9.
alignas(64) inline constexpr float plasticity_quartics[5][16] = {
    {1.0f, 0.712933697f, 0.485545925f, 0.312599027f, 0.18756387f, 0.10282639f, 0.0500521509f, 0.0207215171f,
     0.006817921f, 0.0015918254f, 0.000215009889f, 1.11730123e-05f, 8.76806416e-08f, 0.0f, 0.0f, 0.0f},
    {-0.318309884f, -0.256467378f, -0.199182312f, -0.147803114f, -0.10354237f, -0.0673307879f, -0.0396494896f,
     -0.0203612781f, -0.00858275921f, -0.00267892176f, -0.000512541392f, -4.08648997e-05f, -5.14523717e-07f, 0.0f, 0.0f,
     0.0f},
    {0.0318309455f, 0.0298967621f, 0.0272749725f, 0.0240019536f, 0.0201798143f, 0.0159902258f, 0.0117013508f,
     0.00766026456f, 0.00425639964f, 0.00183071947f, 0.000512667739f, 6.53285593e-05f, 1.56686669e-06f, 0.0f, 0.0f,
     0.0f},
    {-0.000530266472f, -0.000759753673f, -0.00098579813f, -0.0011895559f, -0.0013465944f, -0.00142874237f,
     -0.00140743261f, -0.00126046686f, -0.000985366225f, -0.00062213972f, -0.000272633609f, -6.07305448e-05f,
     -3.41988131e-06f, 0.0f, 0.0f, 0.0f},
    {-5.70278962e-05f, -5.75819066e-05f, -5.46474456e-05f, -4.62206505e-05f, -3.1126332e-05f, -8.74594706e-06f,
     2.03668946e-05f, 5.33165172e-05f, 8.27023619e-05f, 9.46206527e-05f, 7.43723685e-05f, 3.06432576e-05f,
     3.39042027e-06f, 0.0f, 0.0f, 0.0f},
};
}  // namespace detail

inline vec<float> plasticity_lanes(vec<float> m, vec<float> v) {
  constexpr float share = 2.0f / 15.0f;
  const vec<float> a = m * m;
  const vec<float> w = v + a * share;
  const vec<float> s = a * reciprocal(v * w) * v;
  // Adding 1.5 2^23 leaves round(15 s) in the low bits, which is all that the permutation reads.
  const vec<float> shifted = s * (15.0f * share) + 12582912.0f;
  const vec<float> f = s * (15.0f * share) - (shifted - 12582912.0f);
  const auto segment = (__m512i)shifted;
  const auto at = [&](int power) {
    return (vec<float>)_mm512_permutexvar_ps(segment, (__m512)load(detail::plasticity_quartics[power]));
  };
  vec<float> p = at(4);
  p = p * f + at(3);
  p = p * f + at(2);
  p = p * f + at(1);
  return p * f + at(0);
}
#else
/// PP is an entire function of u; with PP = exp(-u/2) g(u), g is a polynomial in s, fitted to 2.0e-8 on [0, 80].
inline vec<float> plasticity_lanes(vec<float> m, vec<float> v) {
  constexpr float share = 2.0f / 15.0f;
  const vec<float> a = m * m;
  const vec<float> w = v + a * share;
  const vec<float> ar = a * reciprocal(v * w);
  const vec<float> u = smaller(ar * w, splat(80.0f));
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
#endif

/// The same for doubles, through the C library's erfc.
inline vec<double> plasticity_lanes(vec<double> m, vec<double> v) {
  vec<double> p;
  for (int i = 0; i < lanes<double>; ++i) p[i] = pair_plasticity(m[i], v[i]);
  return p;
}

/// out(rows, lanes) = rows(rows, d) * coefficients(d, width), width a multiple of the lanes, `rows` at most block_rows.
inline constexpr int block_rows = 8;
template <class F>
inline void rows_times_lanes(const F* rows, index_t row_stride, index_t d, const F* coefficients, index_t width,
                             F* out) {
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
