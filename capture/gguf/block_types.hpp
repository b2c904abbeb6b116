// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// How a GGUF file stores entries: `elements` of them in a block of `bytes`.
struct block_type {
  std::uint32_t id;  ///< ggml's number
  const char* name;
  index_t elements, bytes;
  /// Widens one block to `elements` floats, with the bits of the Python package `gguf`; null: the type is known and not
  /// supported.
  void (*widen)(const std::byte* block, float* out);
};

/// The type of ggml's number. Throws `error`, with the type's name where it has one, if it is not supported.
const block_type& find_block_type(std::uint32_t id);

/// Widens `count` entries, a multiple of the type's elements.
void widen_blocks(const block_type& type, const std::byte* blocks, index_t count, float* out);

}  // namespace qkgeom
