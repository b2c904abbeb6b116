// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// Storage type of keys in a key-value cache: the types of llama.cpp's --cache-type-k. A cache of a rotated type
/// multiplies queries, and keys before it rounds them, by a Hadamard matrix, as llama.cpp does for heads of a multiple
/// of 64 values unless LLAMA_ATTN_ROT_DISABLE is set; MLX has the same matrix.
enum class cache_type {
  f32,
  f16,
  bf16,
  q8_0,
  q5_1,
  q5_0,
  q4_1,
  q4_0,
  iq4_nl,
  q8_0_rotated,
  q5_1_rotated,
  q5_0_rotated,
  q4_1_rotated,
  q4_0_rotated,
  iq4_nl_rotated
};

/// Values of a block: the types from q8_0 on store one or two half-precision numbers per block.
inline constexpr index_t cache_block = 32;

/// A cache type, its name, and its bits per value, including the block's scale and minimum.
struct cache_type_entry {
  cache_type type;
  std::string_view name;
  double bits;
};
inline constexpr cache_type_entry cache_types[] = {{cache_type::f32, "f32", 32},
                                                   {cache_type::f16, "f16", 16},
                                                   {cache_type::bf16, "bf16", 16},
                                                   {cache_type::q8_0, "q8_0", 8.5},
                                                   {cache_type::q5_1, "q5_1", 6},
                                                   {cache_type::q5_0, "q5_0", 5.5},
                                                   {cache_type::q4_1, "q4_1", 5},
                                                   {cache_type::q4_0, "q4_0", 4.5},
                                                   {cache_type::iq4_nl, "iq4_nl", 4.5},
                                                   {cache_type::q8_0_rotated, "q8_0_rotated", 8.5},
                                                   {cache_type::q5_1_rotated, "q5_1_rotated", 6},
                                                   {cache_type::q5_0_rotated, "q5_0_rotated", 5.5},
                                                   {cache_type::q4_1_rotated, "q4_1_rotated", 5},
                                                   {cache_type::q4_0_rotated, "q4_0_rotated", 4.5},
                                                   {cache_type::iq4_nl_rotated, "iq4_nl_rotated", 4.5}};

/// Smallest and largest Hadamard matrix, in values.
inline constexpr index_t least_rotation = 64, most_rotation = 256;

constexpr std::string_view name_of(cache_type t) { return cache_types[static_cast<int>(t)].name; }
constexpr double bits_of(cache_type t) { return cache_types[static_cast<int>(t)].bits; }
/// Returns whether the type stores blocks of `cache_block` values.
QKGEOM_HD constexpr bool has_blocks(cache_type t) { return t >= cache_type::q8_0; }

QKGEOM_HD constexpr bool is_rotated(cache_type t) { return t >= cache_type::q8_0_rotated; }
/// Returns the values of a key of `dim` that one Hadamard matrix multiplies: the largest power of 2 that divides `dim`.
QKGEOM_HD constexpr index_t rotation_size(index_t dim) { return dim & -dim; }

/// Returns the type with this name. Throws `error` that lists the types.
inline cache_type parse_cache_type(std::string_view name) {
  std::string known;
  for (const auto& t : cache_types) {
    if (t.name == name) return t.type;
    known += (known.empty() ? "" : ", ") + std::string(t.name);
  }
  fail("a cache has no type \"", name, "\"; the types are ", known);
}

/// Throws `error` unless heads of `dim` values can be stored as `t`.
inline void require_blocks(cache_type t, index_t dim) {
  require(!has_blocks(t) || dim % cache_block == 0, "keys of ", dim, " values cannot be stored as ", name_of(t),
          ": it takes blocks of ", cache_block, ", as llama.cpp's cache does");
  const index_t size = rotation_size(dim);
  require(!is_rotated(t) || (size >= least_rotation && size <= most_rotation), "keys of ", dim,
          " values cannot be stored as ", name_of(t), ": a power of 2 from ", least_rotation, " to ", most_rotation,
          " must divide them, and no larger one");
}

namespace detail::cache_rounding {

/// Returns a b rounded to single precision, as `sum` returns a + b; f64 keeps compilers from fusing the two.
QKGEOM_HD inline float product(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}
QKGEOM_HD inline float sum(float a, float b) {
  return static_cast<float>(static_cast<double>(a) + static_cast<double>(b));
}
QKGEOM_HD inline float as_half(float x) { return static_cast<float>(f16::round(x)); }
QKGEOM_HD inline float inverse(float x) { return x == 0 ? 0.0f : 1 / x; }

/// Returns the value of largest size, with its sign; the first of equal ones.
QKGEOM_HD inline float largest_of(const float* x) {
  float largest = 0;
  for (index_t i = 0; i < cache_block; ++i)
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  return largest;
}

/// Rounds with one scale to levels 0 to top, where the level at half the range stands for 0 (q4_0, q5_0).
QKGEOM_HD inline void round_about_zero(const float* x, int top, float* out) {
  const auto half = static_cast<float>((top + 1) / 2);
  const float scale = largest_of(x) / -half, to_level = inverse(scale), stored = as_half(scale);
  for (index_t i = 0; i < cache_block; ++i) {
    const float level = std::trunc(sum(product(x[i], to_level), half + 0.5f));
    out[i] = stored * (std::fmin(level, static_cast<float>(top)) - half);
  }
}

/// Rounds with a scale and a minimum: levels 0 to top from the smallest value to the largest (q4_1, q5_1).
QKGEOM_HD inline void round_from_minimum(const float* x, int top, float* out) {
  float low = x[0], high = x[0];
  for (index_t i = 1; i < cache_block; ++i) {
    low = std::fmin(low, x[i]);
    high = std::fmax(high, x[i]);
  }
  const float scale = (high - low) / static_cast<float>(top), to_level = inverse(scale);
  const float stored = as_half(scale), stored_low = as_half(low);
  for (index_t i = 0; i < cache_block; ++i) {
    const float level = std::trunc(sum(product(x[i] - low, to_level), 0.5f));
    out[i] = sum(product(stored, std::fmin(level, static_cast<float>(top))), stored_low);
  }
}

/// Rounds with one scale to levels -127 to 127 (q8_0).
QKGEOM_HD inline void round_to_bytes(const float* x, float* out) {
  const float scale = std::fabs(largest_of(x)) / 127, to_level = inverse(scale), stored = as_half(scale);
  for (index_t i = 0; i < cache_block; ++i) out[i] = stored * std::round(product(x[i], to_level));
}

/// Returns level i of iq4_nl, ascending.
QKGEOM_HD inline float iq4_level(int i) {
  constexpr float levels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return levels[i];
}
QKGEOM_HD inline float nearest_iq4_level(float x) {
  int i = 0;
  while (i < 15 && x >= iq4_level(i + 1)) ++i;
  return i < 15 && x - iq4_level(i) >= iq4_level(i + 1) - x ? iq4_level(i + 1) : iq4_level(i);
}

/// Rounds to unevenly spaced levels (iq4_nl). The scale fits by least squares weighted by x^2, for the levels that a
/// scale mapping the largest value to -127 gives.
QKGEOM_HD inline void round_unevenly(const float* x, float* out) {
  const float largest = largest_of(x);
  const bool empty = std::fabs(largest) < 1e-15f;
  const float to_level = empty ? 0.0f : 1 / (largest / iq4_level(0));
  double with_x = 0, squares = 0;
  for (index_t i = 0; i < cache_block; ++i) {
    const auto value = static_cast<double>(x[i]),
               level = static_cast<double>(nearest_iq4_level(product(x[i], to_level)));
    with_x += value * value * level * value;
    squares += value * value * level * level;
  }
  const float stored = empty ? 0.0f : as_half(static_cast<float>(with_x / squares));
  for (index_t i = 0; i < cache_block; ++i) out[i] = stored * nearest_iq4_level(product(x[i], to_level));
}

/// Multiplies x (n, a power of 2) by the Hadamard matrix over sqrt(n), which is its own inverse.
QKGEOM_HD inline void hadamard(float* x, index_t n) {
  for (index_t half = 1; half < n; half *= 2)
    for (index_t i = 0; i < n; i += 2 * half)
      for (index_t j = i; j < i + half; ++j) {
        const float a = x[j], b = x[j + half];
        x[j] = a + b;
        x[j + half] = a - b;
      }
  const float scale = 1 / std::sqrt(static_cast<float>(n));
  for (index_t i = 0; i < n; ++i) x[i] *= scale;
}

QKGEOM_HD inline void round_blocks(cache_type t, const float* x, index_t n, float* out) {
  if (!has_blocks(t))
    for (index_t i = 0; i < n; ++i)
      out[i] = t == cache_type::f16    ? as_half(x[i])
               : t == cache_type::bf16 ? static_cast<float>(bf16::round(x[i]))
                                       : x[i];
  else
    for (index_t i = 0; i < n; i += cache_block)
      if (t == cache_type::q8_0)
        round_to_bytes(x + i, out + i);
      else if (t == cache_type::q5_1 || t == cache_type::q4_1)
        round_from_minimum(x + i, t == cache_type::q5_1 ? 31 : 15, out + i);
      else if (t == cache_type::q5_0 || t == cache_type::q4_0)
        round_about_zero(x + i, t == cache_type::q5_0 ? 31 : 15, out + i);
      else
        round_unevenly(x + i, out + i);
}

}  // namespace detail::cache_rounding

/// Writes to `out` (n) the values that a cache of type `t` gives back for x (n); `out` may be x. n is a multiple of
/// `cache_block` if the type has blocks. Blocks are rounded like ggml's reference functions, in single precision
/// without fused multiply-adds; iq4_nl sums its scale in f64. Scales above 65504 become infinite, as in ggml. For a
/// rotated type x is one key, or `rotation_size` of its values, and `out` is the rounded key rotated back: q.out equals
/// the product of the rotated query and the rounded key.
QKGEOM_HD inline void round_as_cached(cache_type t, const float* x, index_t n, float* out) {
  using namespace detail::cache_rounding;
  if (!is_rotated(t)) return round_blocks(t, x, n, out);
  constexpr int first = static_cast<int>(cache_type::q8_0_rotated) - static_cast<int>(cache_type::q8_0);
  const index_t size = rotation_size(n);
  for (index_t i = 0; i < n; i += size) {
    float rotated[most_rotation];
    for (index_t c = 0; c < size; ++c) rotated[c] = x[i + c];
    hadamard(rotated, size);
    round_blocks(static_cast<cache_type>(static_cast<int>(t) - first), rotated, size, rotated);
    hadamard(rotated, size);
    for (index_t c = 0; c < size; ++c) out[i + c] = rotated[c];
  }
}

}  // namespace qkgeom
