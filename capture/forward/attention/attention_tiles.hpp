// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "capture/forward/attention/attention.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Options of `attention_options` in the tile kernel's units: scores are to base 2.
struct tile_attention {
  std::int32_t window;
  float scale;         ///< log2 e times the scale of the softmax, applied to the f32 score
  float cap;           ///< log2 e times the cap of the scores; 0: no cap
  const float* sinks;  ///< (query heads) as in `attention_options`; null: no sinks
};

/// Computes `causal_attention` with `to_bf16` by tile products: queries, keys, values and weights are rounded to bf16,
/// products are summed in f32. May be called only where `tiles_available()`.
void causal_attention_tiles(tile_unit unit, thread_pool& pool, tensor_view<float> q, const key_buffer& k,
                            const key_buffer& v, index_t key_heads, const tile_attention& how);

}  // namespace qkgeom
