// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "capture/forward/attention/attention.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// `causal_attention` with `to_bf16` by tile products: queries, keys, values and weights are rounded to bf16, products
/// are summed in f32, `scale` (log2 e times that of the softmax) is applied to the f32 score. To be called only where
/// `tiles_available()`. `softmax`: see `attention_options`.
void causal_attention_tiles(tile_unit unit, thread_pool& pool, tensor_view<float> q, const key_buffer& k,
                            const key_buffer& v, index_t key_heads, std::int32_t window, float scale,
                            const measured_softmax* softmax);

}  // namespace qkgeom
