// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// bfloat16 as stored: the upper half of an IEEE binary32. Converts to float exactly.
struct bf16 {
  std::uint16_t bits = 0;

  QKGEOM_HD operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  /// Rounds to nearest, ties to even; NaN stays NaN.
  QKGEOM_HD static bf16 round(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    std::uint16_t nearest;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(nearest) : "f"(x));
    return {nearest};
#else
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
#endif
  }
  friend bool operator==(bf16, bf16) = default;
};

/// IEEE binary16 as stored. Converts to float exactly.
struct f16 {
  std::uint16_t bits = 0;

  QKGEOM_HD operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    // After a shift by 13 bits the exponent is 112 too small; the product corrects it, also for subnormals.
    const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }

  /// Rounds to nearest, ties to even; overflow gives infinity.
  QKGEOM_HD static f16 round(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
    const std::uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (a >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (a < 0x38800000u) {  // subnormal: adding 0.5 puts the rounding at the right bit
      const float shifted = std::bit_cast<float>(a) + 0.5f;
      return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
    }
    return {static_cast<std::uint16_t>(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13))};
  }
  friend bool operator==(f16, f16) = default;
};

enum class dtype { bf16, f16, f32, f64, i32, i64 };

/// Default type of arithmetic on elements of type T: f64 for f64, else f32.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<std::remove_cv_t<T>, double>, double, float>;

template <class T>
inline constexpr bool is_element_v =
    std::is_same_v<std::remove_cv_t<T>, bf16> || std::is_same_v<std::remove_cv_t<T>, f16> ||
    std::is_same_v<std::remove_cv_t<T>, float> || std::is_same_v<std::remove_cv_t<T>, double>;

/// Rounds x to the nearest value of type T.
template <class T>
T round_to(double x) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
    return T::round(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

template <class T>
constexpr dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bf16>)
    return dtype::bf16;
  else if constexpr (std::is_same_v<U, f16>)
    return dtype::f16;
  else if constexpr (std::is_same_v<U, float>)
    return dtype::f32;
  else if constexpr (std::is_same_v<U, double>)
    return dtype::f64;
  else if constexpr (std::is_same_v<U, std::int32_t>)
    return dtype::i32;
  else {
    static_assert(std::is_same_v<U, std::int64_t>, "no dtype for this element type");
    return dtype::i64;
  }
}

constexpr std::size_t size_of(dtype t) {
  switch (t) {
    case dtype::bf16:
    case dtype::f16:
      return 2;
    case dtype::f32:
    case dtype::i32:
      return 4;
    default:
      return 8;
  }
}

/// Returns the name that safetensors uses: "BF16", "F16", "F32", "F64", "I32", "I64".
constexpr std::string_view name_of(dtype t) {
  constexpr std::string_view names[] = {"BF16", "F16", "F32", "F64", "I32", "I64"};
  return names[static_cast<int>(t)];
}

/// Calls `f.template operator()<T>()` with the C++ type T of a floating dtype. Throws on integers.
template <class F>
decltype(auto) visit_element_type(dtype t, F&& f) {
  switch (t) {
    case dtype::bf16:
      return std::forward<F>(f).template operator()<bf16>();
    case dtype::f16:
      return std::forward<F>(f).template operator()<f16>();
    case dtype::f32:
      return std::forward<F>(f).template operator()<float>();
    case dtype::f64:
      return std::forward<F>(f).template operator()<double>();
    default:
      fail("element type must be BF16, F16, F32 or F64, not ", name_of(t));
  }
}

}  // namespace qkgeom
