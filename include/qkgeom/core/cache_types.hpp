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

/// Writes to `out` (n) the values that a cache of type `t` gives back for x (n); `out` may be x. n is a multiple of
/// `cache_block` if the type has blocks. Blocks are rounded like ggml's reference functions, in single precision
/// without fused multiply-adds; iq4_nl sums its scale in f64. Scales above 65504 become infinite, as in ggml. For a
/// rotated type x is one key, or `rotation_size` of its values, and `out` is the rounded key rotated back: q.out equals
/// the product of the rotated query and the rounded key.
QKGEOM_HD inline void round_as_cached(cache_type t, const float* x, index_t n, float* out);

}  // namespace qkgeom

#include "qkgeom/core/detail/cache_types.hpp"
