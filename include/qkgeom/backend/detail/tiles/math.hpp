// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/scalar.hpp"

/// The mathematics of one pair of keys, one source for host and device.
namespace qkgeom::tile {

/// A smaller v counts as 0: the keys are equal in every direction in which queries vary.
template <class F>
inline constexpr F least_v = static_cast<F>(1e-18);

/// If v = n_i + n_j - 2 g is below this share of n_i + n_j, it is mostly rounding, and is computed from the difference.
inline constexpr float cancelled = 0x1p-10f;

/// Returns 1 / x; a device uses its special function unit, to 1 ulp.
QKGEOM_HD inline float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return 1.0f / x;
#endif
}

/// Returns 2^x; a device uses its special function unit, to 2 ulp.
QKGEOM_HD inline float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return std::exp2(x);
#endif
}

/// Returns 4 Phi(z) Phi(-z) = 1 - erf(|z| / sqrt 2)^2 at z^2 = u = m^2 / v, in f32: absolute error at most 2e-7 on the
/// host (tested), 6e-7 on a device (tests/gpu), never negative. The value is exp(-u / 2) g(s), g a polynomial in s = u
/// / (15 / 2 + u): one division, no square root. v must be of order 1 and not below least_v, |m| below 1e18.
QKGEOM_HD inline float plasticity(float m, float v) {
  constexpr double share = 2.0 / 15.0, share2 = share * share, share4 = share2 * share2;
  const float a = m * m;
  const float w = v + a * static_cast<float>(share);
  const float ar = a * reciprocal(v * w);
  const float x = ar * v;  // s / share; u is ar w
  float g = x * static_cast<float>(-0.24982483742946232 * share4 * share2) +
            static_cast<float>(0.05913400789224213 * share4 * share);
  g = g * x + static_cast<float>(0.05678951573554412 * share4);
  g = g * x + static_cast<float>(0.19509401396998058 * share2 * share);
  g = g * x + static_cast<float>(0.038098639979193896 * share2);
  g = g * x + static_cast<float>(-1.0246446959440765 * share);
  g = g * x + 1.0f;
  return power_of_two(ar * w * -0.72134752044448169f) * g;
}
QKGEOM_HD inline double plasticity(double m, double v) { return pair_plasticity(m, v); }

inline constexpr int terms_of_pair = static_cast<int>(pair_terms);

/// Sets the terms of a pair in the order of `pair_term`, in f32 and without branches: m is the mean of the score
/// difference, v its variance (0 or less if the keys are equal in every direction in which queries vary), drift and
/// content add up to m, along and cross are the shares of coordinate 1 and of its covariance with the others in v.
QKGEOM_HD inline void set_terms(float m, float v, float drift, float content, float along, float cross,
                                bool same_position, float* out) {
  const bool varies = v > least_v<float>;
  const float root = std::sqrt(varies ? v : 1.0f), size = std::fabs(m);
  const float sure = m == 0.0f ? 0.5f : (m < 0.0f ? 1.0f : 0.0f), far = m == 0.0f ? 0.0f : HUGE_VALF;
  const float rest = v - along - cross;
  out[0] = same_position ? 0.5f : (varies ? 0.5f * std::erfc(m / root * 0.70710678118654752f) : sure);
  out[1] = std::fabs(drift);
  out[2] = std::fabs(content);
  out[3] = along;
  out[4] = rest > 0.0f ? rest : 0.0f;
  out[5] = cross;
  out[6] = varies ? size / root : far;
}

/// A f32 value as the sum of two bf16, to a relative 2^-17. A split dot product drops the products low low, at most
/// 2^-18 |x| |y|, so that |x|^2 + |y|^2 - 2 x.y errs by at most 2^-18 (|x|^2 + |y|^2), of either sign.
struct split {
  bf16 high, low;
};
QKGEOM_HD inline split split_of(float x) {
  const bf16 high = bf16::round(x);
  return {high, bf16::round(x - static_cast<float>(high))};
}

QKGEOM_HD inline float split_square(split a) {
  const float x = static_cast<float>(a.high) + static_cast<float>(a.low);
  return x * x;
}

}  // namespace qkgeom::tile
