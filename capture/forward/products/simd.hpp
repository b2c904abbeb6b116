// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

namespace qkgeom::simd {

/// Floats in a vector register of the target's instruction set.
#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif
/// Number of vector registers.
#if defined(__AVX512F__)
inline constexpr int registers = 32;
#else
inline constexpr int registers = 16;
#endif

typedef float floats __attribute__((vector_size(lanes * 4)));
typedef std::int32_t ints __attribute__((vector_size(lanes * 4)));

inline floats load(const float* p) {
  floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, floats v) { std::memcpy(p, &v, sizeof v); }
inline floats all(float x) { return x - floats{}; }
inline ints all(std::int32_t x) { return x - ints{}; }
inline floats max(floats a, floats b) { return a > b ? a : b; }
inline bool equal(floats a, floats b) {
  const ints differs = a != b;
  ints zero{};
  return std::memcmp(&differs, &zero, sizeof zero) == 0;
}
/// Hides x from the compiler, so that it fuses no multiplication before with an addition after.
inline void keep([[maybe_unused]] floats& x) {
#if defined(__x86_64__)
  __asm__("" : "+v"(x));
#elif defined(__aarch64__)
  __asm__("" : "+w"(x));
#endif
}
inline float sum(floats v) {
  float s = 0;
  for (int i = 0; i < lanes; ++i) s += v[i];
  return s;
}

/// Returns 2^x for x <= 126; below -126 the result is 2^-126. Relative error at most 2.4e-7 (the polynomial is the
/// minimax one of degree 5 on [-1/2, 1/2], error 7.5e-8, the rest is rounding).
inline floats exp2(floats x) {
  x = max(x, all(-126.0f));
  constexpr float shifter = 12582912.0f;  // 1.5 * 2^23: adding it leaves round(x) in the low bits
  const floats shifted = x + shifter;
  const floats f = x - (shifted - shifter);
  floats p = f * 0.0013276471782051576f + 0.009675541332771409f;
  p = p * f + 0.055507132741490814f;
  p = p * f + 0.24022119723881924f;
  p = p * f + 0.6931469670643621f;
  p = p * f + 1.0000000716546733f;
  return std::bit_cast<floats>(std::bit_cast<ints>(p) + (std::bit_cast<ints>(shifted) << 23));
}

/// Returns 2^x for -126 <= x <= 0 with a relative error of at most 1.1e-4, for results that are rounded to bf16 (half a
/// unit there is 2e-3): the bits of x + 1 - 2^f, f the fraction of x, are nearly those of 2^x (Malossi et al. 2015,
/// "Fast exponential computation on SIMD architectures"). The cubic is the minimax one for 1 + f - 2^f on [0, 1].
inline floats exp2_rough(floats x) {
  x = max(x, all(-126.0f));
  constexpr float shifter = 12582912.0f;
  const floats f = x - ((x - 0.5f + shifter) - shifter);
  floats g = f * -0.07920424020706318f + -0.22433836480620076f;
  g = g * f + 0.3035426050132639f;
  g = g * f + 0.00010703434811518557f;
  return std::bit_cast<floats>(__builtin_convertvector((x - g) * 8388608.0f + 1065353216.0f, ints));
}

/// Rounds finite values to bf16, to nearest, ties to even; the result is held as float.
inline floats round_finite_to_bf16(floats x) {
  const ints u = std::bit_cast<ints>(x);
  return std::bit_cast<floats>((u + 0x7fff + ((u >> 16) & 1)) & static_cast<std::int32_t>(0xffff0000u));
}
/// Rounds like `round_finite_to_bf16`; NaN stays NaN.
inline floats round_to_bf16(floats x) { return x == x ? round_finite_to_bf16(x) : x; }

/// Calls f(0), ..., f(N - 1) with compile-time numbers, so that arrays of vectors stay in registers.
template <int N, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>{}), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

}  // namespace qkgeom::simd
