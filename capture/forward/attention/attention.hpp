// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "capture/forward/products/tiles.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Keys or values of one layer, f32, head-major (heads, padded tokens, padded channels); the padding is zero, so that
/// the attention kernel works on whole tiles.
class key_buffer {
 public:
  /// Makes room for (tokens, heads, dim) and zeroes the padding.
  void reshape(index_t tokens, index_t heads, index_t dim);
  /// Returns the entries without padding, (tokens, heads, dim).
  tensor_view<float> view() { return {data_.data(), tokens_, heads_, dim_, padded_dim_, padded_tokens_ * padded_dim_}; }
  const float* head(index_t h) const { return data_.data() + h * padded_tokens_ * padded_dim_; }
  index_t padded_dim() const { return padded_dim_; }

 private:
  std::vector<float> data_;
  index_t tokens_ = 0, heads_ = 0, dim_ = 0, padded_tokens_ = 0, padded_dim_ = 0;
};

/// Kernel of the attention: the fastest that the CPU can run, the fastest without AMX, or the one that every CPU can
/// run.
enum class attention_kernel { best, without_amx, portable };

/// Returns the instructions with which a kernel multiplies tiles of bf16.
inline tile_unit tile_unit_of(attention_kernel kernel) {
  if (kernel == attention_kernel::portable || !tiles_available()) return tile_unit::none;
  return kernel == attention_kernel::best ? best_tile_unit() : tile_unit::avx512;
}

struct attention_options {
  std::optional<index_t> window{};  ///< tokens a query sees, itself included; without a value: all before it
  bool to_bf16 = false;             ///< q, k and v are bf16 values; weights and result are rounded to bf16
  std::optional<double> scale{};    ///< factor of the scores; without a value: 1 / sqrt(d)
  double cap = 0;                   ///< c of the cap c tanh(x / c) of scaled scores; 0: no cap
  const float* sinks = nullptr;     ///< (query heads) logits of one more key of value 0; null: no such key
  attention_kernel kernel = attention_kernel::best;
};

/// Computes causal softmax(scale q k^T) v with grouped queries: query head h reads key head h / (heads of q / heads of
/// k). q (tokens, query heads, d) is overwritten by the result. Works block by block with a running maximum (Milakov
/// and Gimelshein 2018; Dao et al. 2022), so memory does not grow with the square of the tokens. The result does not
/// depend on the number of threads.
void causal_attention(thread_pool& pool, tensor_view<float> q, const key_buffer& k, const key_buffer& v,
                      index_t key_heads, const attention_options& options);

}  // namespace qkgeom
