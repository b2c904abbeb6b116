// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

// Constants and the view of query rows that the attention kernels share.

/// Keys are padded to a multiple of this number.
inline constexpr index_t key_tile = 64;

/// Keys of a block in bf16. The weights are rounded relative to the largest score so far, so that the size of a block
/// is part of the result: PyTorch's CPU attention takes 512.
inline constexpr index_t bf16_block = 512;

/// Score of a hidden key, below all others.
inline constexpr float masked = -1e30f;

/// The queries of one block: rows [first, first + count) of a group of heads, the head running fastest, since the heads
/// of a group read the same keys.
template <class T>
struct query_rows {
  tensor_view<T> q;
  const index_t* heads;  ///< (group)
  index_t group, first, count;

  index_t position(index_t i) const { return (first + i) / group; }
  index_t head(index_t i) const { return heads[(first + i) % group]; }
  T* row(index_t i) const { return q.head(head(i)).row(position(i)); }
};

}  // namespace qkgeom
