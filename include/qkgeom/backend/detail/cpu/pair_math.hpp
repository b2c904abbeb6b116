// SPDX-License-Identifier: MIT
#pragma once

#include <limits>
#include <type_traits>

#include "qkgeom/backend/detail/cpu/simd_vectors.hpp"
#include "qkgeom/context/pair_formula.hpp"

namespace qkgeom::cpu {

/// The f32 form of PP = 4 Phi(z) Phi(-z), z^2 = u = m^2 / v, as a function of s = u / (c + u) in [0, 1), by one
/// division, no square root. Absolute error at most 2e-7 (tested), never negative; v of order 1 and at least 1e-18, |m|
/// below 1e18.
#if defined(__AVX512F__)
namespace detail {
/// c = 8: cubics on 32 intervals around s = k / 31, by power of 31 s - k: error 4.3e-8; 0 from u = 37 on, where
/// PP < 2.3e-9.
// clang-format off
alignas(64) inline constexpr float plasticity_cubics[4][32] = {
    {1.0f, 0.844430208f, 0.705817521f, 0.583380759f, 0.47626254f, 0.3835347f, 0.304204911f, 0.237225652f, 0.18150495f,
     0.135919005f, 0.0993267521f, 0.0705862418f, 0.0485725179f, 0.0321966596f, 0.0204255655f, 0.0123016946f,
     0.00696180994f, 0.0036534369f, 0.00174736802f, 0.000744287565f, 0.000273585349f, 8.30409335e-05f, 1.95284174e-05f,
     3.23300083e-06f, 3.23701016e-07f, 1.52006852e-08f},
    {-0.164289087f, -0.14696759f, -0.130388051f, -0.114628486f, -0.0997627079f, -0.0858585164f, -0.0729758441f,
     -0.0611648671f, -0.0504640676f, -0.0408982784f, -0.0324768499f, -0.0251919739f, -0.0190172922f, -0.013906938f,
     -0.00979515165f, -0.00659673801f, -0.0042086551f, -0.00251307385f, -0.0013822671f, -0.000685491657f,
     -0.000297624676f, -0.000108546468f, -3.13137316e-05f, -6.52564677e-06f, -8.50700815e-07f, -5.42953273e-08f},
    {0.00883380324f, 0.00848104991f, 0.00809034146f, 0.0076615233f, 0.00719717564f, 0.00670076022f, 0.00617667241f,
     0.00563027849f, 0.00506791845f, 0.0044968836f, 0.00392534863f, 0.00336226681f, 0.00281718909f, 0.00230001798f,
     0.00182065507f, 0.00138851569f, 0.00101187965f, 0.000697061128f, 0.000447434024f, 0.000262451329f, 0.000136954011f,
     6.12177682e-05f, 2.21906193e-05f, 6.01005468e-06f, 1.07079291e-06f, 1.01999198e-07f},
    {-0.000113576767f, -0.000123668564f, -0.000136709132f, -0.000149030064f, -0.000160347729f, -0.00017035818f,
     -0.000178742863f, -0.000185176235f, -0.000189335333f, -0.000190914041f, -0.000189625396f, -0.000185243742f,
     -0.000177603084f, -0.000166638623f, -0.00015242309f, -0.000135216746f, -0.000115526447f, -9.41641338e-05f,
     -7.22793411e-05f, -5.13217346e-05f, -3.28765818e-05f, -1.83357333e-05f, -8.45164595e-06f, -2.97682891e-06f,
     -7.08478638e-07f, -9.30747817e-08f},
};
// clang-format on
}  // namespace detail

inline vec<float> plasticity_lanes(vec<float> m, vec<float> v) {
  constexpr float per_s = 31.0f / 8.0f;
  const vec<float> a = m * m;
  const vec<float> w = v + a * 0.125f;
  const vec<float> r = (vec<float>)_mm512_rcp14_ps((__m512)w);
  const vec<float> ar = a * r;
  const vec<float> s = ar + ar * (1.0f - w * r);
  // Adding 1.5 2^23 leaves round(31 s) in the low bits; the permutation reads no others.
  const vec<float> shifted = s * per_s + 12582912.0f;
  const vec<float> f = s * per_s - (shifted - 12582912.0f);
  const auto segment = (__m512i)shifted;
  const auto at = [&](int power) {
    const float* const row = detail::plasticity_cubics[power];
    return (vec<float>)_mm512_permutex2var_ps((__m512)load(row), segment, (__m512)load(row + 16));
  };
  vec<float> p = at(3);
  p = p * f + at(2);
  p = p * f + at(1);
  return p * f + at(0);
}
#else
/// c = 15/2: PP = exp(-u / 2) g(s), g a polynomial, fitted to 2.0e-8 for u in [0, 80].
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
  // Unsigned, since lanes with a cancelled v hold any bits and may overflow; nobody reads them.
  using bits = word_lanes;
  bits exponent, mantissa;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  std::memcpy(&mantissa, &p, sizeof mantissa);
  mantissa += exponent << 23;
  std::memcpy(&p, &mantissa, sizeof p);
  return p * g;
}
#endif

namespace detail {
/// (1 + 2x) exp(x^2) erfc(x) by powers of q = (x - 4) / (x + 4), x in [0, 28]: its Chebyshev series of degree 22 in 60
/// digits, whose next term is 1e-17.
// clang-format off
inline constexpr double scaled_erfc_powers[] = {
    1.2329951186255526, -0.1396211168405629, 0.015379652102620305, 0.06809705425473639, -0.10103906603632913,
    0.09373283499682628, -0.0663303658119996, 0.037167515561938515, -0.0161977340542423, 0.005031969761432285,
    -0.000757773370277741, -0.0001992555416162786, 0.00015062234674481447, -2.4403036998954536e-05,
    -1.1225008755089552e-05, 5.717563626689596e-06, 3.016107881318932e-07, -8.346789501461553e-07,
    6.258721442256385e-08, 1.1494863135062745e-07, -7.764817952397257e-09, -1.3529367067220971e-08,
    -1.7668021904964841e-09};
/// 1 / n!
inline constexpr double exponential_powers[] = {
    1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
    1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
// clang-format on

template <std::size_t N>
vec<double> polynomial(const double (&powers)[N], const vec<double>& x) {
  vec<double> p = splat(powers[N - 1]);
#pragma GCC unroll 32
  for (std::size_t i = 1; i < N; ++i) p = p * x + powers[N - 1 - i];
  return p;
}

/// Returns 2^k for whole k from -1022 to 1023 from the bits of k + 1.5 2^52.
inline vec<double> power_of_two(const vec<double>& shifted) {
  typedef std::uint64_t bits __attribute__((vector_size(simd_bytes)));
  return (vec<double>)(((bits)shifted + 1023) << 52);
}
}  // namespace detail

/// Returns erfc(x) for x >= 0 to 1e-15 of its size where that is normal, gradually 0 beyond 26.5.
inline vec<double> erfc_lanes(const vec<double>& x_or_more) {
  constexpr double whole = 0x1.8p52;  // added and subtracted again, it rounds to integers
  const vec<double> most = splat(28.0), x = x_or_more < most ? x_or_more : most;
  const vec<double> scale = 1.0 / ((x + 4.0) * (x + x + 1.0));
  const vec<double> p = detail::polynomial(detail::scaled_erfc_powers, (x - 4.0) * (x + x + 1.0) * scale);
  // exp(-x^2) = 2^k exp(-r): the square of x's first 24 bits is exact, and so is its difference from k ln2's.
  const vec<double> high = (x + x * 0x1p29) - x * 0x1p29, low = (x - high) * (x + high), square = high * high;
  const vec<double> k = (square * -1.4426950408889634 + whole) - whole;
  const vec<double> r = (square + k * 0x1.62e42feep-1) + (k * 0x1.a39ef35793c76p-33 + low);
  const vec<double> e = detail::polynomial(detail::exponential_powers, -r) * p * ((x + 4.0) * scale);
  const vec<double> first = k * 0.5 + whole, second = (k - (first - whole)) + whole;
  return e * detail::power_of_two(first) * detail::power_of_two(second);
}

/// Computes the same in f64 as e (2 - e), e = erfc(|m| / sqrt(2 v)), for any v > 0.
inline vec<double> plasticity_lanes(vec<double> m, vec<double> v) {
  const vec<double> e = erfc_lanes(square_root(m * m / (v + v)));
  return e * (2.0 - e);
}

/// The least v that `plasticity_lanes` takes.
template <class F>
inline constexpr F least_v = std::is_same_v<F, float> ? static_cast<F>(1e-18) : std::numeric_limits<F>::min();

/// Returns the plasticity of pairs whose v comes from their difference. If v is 0: 1 for m = 0, else 0.
template <class F>
inline vec<F> difference_plasticity(vec<F> m, vec<F> v) {
  const vec<F> least = splat(least_v<F>);
  return plasticity_lanes(m, v > least ? v : least);
}

/// Multiplies rows (block_rows, d) by coefficients (d, width), a multiple of lanes<F>, into out (block_rows, width).
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
