// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// MXFP4 (OCP Microscaling, 2023): the entry with code c (E2M1) under exponent e is mxfp4_scale(e) mxfp4_values[c].
inline constexpr float mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // twice E2M1
inline float mxfp4_scale(unsigned exponent) { return std::ldexp(1.0f, static_cast<int>(exponent) - 128); }

/// A storage type of GGUF: `elements` entries in a block of `bytes`.
struct block_type {
  std::uint32_t id;  ///< ggml's number
  const char* name;
  index_t elements, bytes;
  /// Widens one block to `elements` floats, with the bits of the Python package `gguf`; null: known, not supported.
  void (*widen)(const std::byte* block, float* out);
};

/// Finds the type of ggml's number. Throws `error`, with the type's name if it is known, if it is not supported.
const block_type& find_block_type(std::uint32_t id);

/// Widens `count` entries, a multiple of the type's elements.
void widen_blocks(const block_type& type, const std::byte* blocks, index_t count, float* out);

}  // namespace qkgeom
