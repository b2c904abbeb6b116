// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom::detail {

/// Bits of T and those of its exponent: all of them set means NaN or infinity.
template <class T>
struct exponent_bits;
template <>
struct exponent_bits<bf16> {
  using type = std::uint16_t;
  static constexpr type mask = 0x7f80;
  static type of(bf16 x) { return x.bits; }
};
template <>
struct exponent_bits<f16> {
  using type = std::uint16_t;
  static constexpr type mask = 0x7c00;
  static type of(f16 x) { return x.bits; }
};
template <>
struct exponent_bits<float> {
  using type = std::uint32_t;
  static constexpr type mask = 0x7f800000;
  static type of(float x) { return std::bit_cast<type>(x); }
};
template <>
struct exponent_bits<double> {
  using type = std::uint64_t;
  static constexpr type mask = 0x7ff0000000000000;
  static type of(double x) { return std::bit_cast<type>(x); }
};

/// True if none of n elements is NaN or infinite. A full exponent plus its lowest bit carries into the sign bit: a loop
/// of integer operations without an exit or a comparison, which compilers vectorise.
template <class T>
bool all_finite(const T* x, index_t n) {
  using bits = typename exponent_bits<T>::type;
  constexpr bits mask = exponent_bits<T>::mask, lowest = static_cast<bits>(mask & (~mask + 1));
  bits seen = 0;
  for (index_t i = 0; i < n; ++i)
    seen = static_cast<bits>(seen | static_cast<bits>((exponent_bits<T>::of(x[i]) & mask) + lowest));
  return seen >> (8 * sizeof(bits) - 1) == 0;
}

}  // namespace qkgeom::detail
