// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "capture/forward/attention/attention.hpp"
#include "capture/forward/decoder.hpp"
#include "capture/forward/products/blas.hpp"
#include "capture/forward/products/linear_panels.hpp"
#include "capture/forward/simd_team.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom {

template <class T>
class padded_key_values;

/// Views values of a type that holds a float as floats.
template <class T>
tensor_view<const float> as_floats(const tensor_view<const T>& x) {
  static_assert(sizeof(T) == sizeof(float));
  return {reinterpret_cast<const float*>(x.data), x.rows, x.heads, x.dim, x.row_stride, x.head_stride};
}

/// The CPU as the device of a `decoder`. The threads of a pool share out chunks of rows; a thread takes all steps of a
/// chunk between two attentions while the chunk lies in its caches.
class cpu_device {
 public:
  using memory_type = cpu_memory;
  static constexpr bool whole_documents = true;
  static constexpr index_t vocabulary_piece = 2048;  ///< words whose logits are computed together
  /// Rows that go through the linear maps together. Fixed, because the bits of a product depend on its shape.
  static constexpr decoder_options sizes{.chunk = 256};

  /// Keeps a pointer to `pool`, which must outlive the device.
  explicit cpu_device(thread_pool& pool, attention_kernel kernel = attention_kernel::best)
      : pool_(&pool), kernel_(kernel) {
    prepare_blas(pool.size());
  }

  const cpu_memory& memory() const { return memory_; }
  weight_reading reading(bool to_bf16) const {
    const bool tiles = to_bf16 && tile_unit_of(kernel_) != tile_unit::none;
    const auto f32 = kernel_ == attention_kernel::portable ? weight_format::f32 : best_f32_format();
    return {to_bf16, tiles ? weight_format::bf16_tiles : f32};
  }
  int workers() const { return pool_->size(); }
  template <class F>
  void each(index_t n, const F& f) const {
    pool_->for_each(n, f);
  }
  /// Runs a kernel on n rows; a thread that works on a chunk already runs it alone.
  template <class Kernel>
  void rows(index_t n, const Kernel& kernel) const {
    pool_->for_each(n, [&](index_t i, int) { kernel(device_kernels::simd_team{}, i); });
  }
  /// Computes the attention of a whole document. The result replaces the queries.
  template <class T>
  void attend(const attention_call<T>& call, const padded_key_values<T>& keys) const {
    const auto q = packed_tensor(reinterpret_cast<float*>(call.out), call.rows, call.heads, call.dim);
    causal_attention(*pool_, q, keys.k(), keys.v(), call.key_heads,
                     {.window = call.window,
                      .to_bf16 = device_kernels::rounds_to_bf16<T>,
                      .scale = call.scale,
                      .cap = call.cap,
                      .sinks = call.sinks,
                      .kernel = kernel_});
  }
  /// Multiplies c = a b^T, not batched, on the calling thread; with AVX-512, one panel of b at a time.
  template <class T>
  void multiply(const product_shape& s, const T* a, const T* b, float* c) const {
    static_assert(sizeof(T) == sizeof(float));
    const auto *const x = reinterpret_cast<const float*>(a), *const w = reinterpret_cast<const float*>(b);
    if (!panels_available()) return multiply_transposed(s.rows, s.columns, s.inner, x, s.a.row, w, s.b.row, c, s.c.row);
    std::vector<float> packed(static_cast<std::size_t>(panels_size(panel_rows, s.inner)));
    for (index_t j = 0; j < s.columns; j += panel_rows) {
      const index_t some = std::min(panel_rows, s.columns - j);
      pack_rows(0, some, s.inner, w + j * s.b.row, s.b.row, packed.data());
      multiply_panels(s.rows, some, s.inner, x, s.a.row, packed.data(), c + j, s.c.row);
    }
  }

 private:
  cpu_memory memory_;
  thread_pool* pool_;
  attention_kernel kernel_;
};

/// Keys and values of a layer, padded for the CPU's attention.
template <class T>
class padded_key_values {
 public:
  explicit padded_key_values(cpu_device&) {}

  void reserve(index_t tokens, index_t heads, index_t dim) {
    if (const auto now = k_.view(); now.rows == tokens && now.heads == heads && now.dim == dim) return;
    k_.reshape(tokens, heads, dim);
    v_.reshape(tokens, heads, dim);
  }
  T* keys() { return reinterpret_cast<T*>(k_.view().data); }
  T* values() { return reinterpret_cast<T*>(v_.view().data); }
  index_t capacity() { return k_.view().rows; }
  index_t row_stride() { return k_.view().row_stride; }
  index_t head_stride() { return k_.view().head_stride; }
  const key_buffer& k() const { return k_; }
  const key_buffer& v() const { return v_; }

 private:
  key_buffer k_, v_;
};

/// Reads the weights of a layer on demand: the page cache keeps what fits.
class weight_reader {
 public:
  using layer_type = layer_weights;

  template <class Read, class Bytes>
  weight_reader(cpu_device&, Read read, const Bytes&, index_t) : read_(std::move(read)) {}
  void begin(std::vector<layer_visit> visits) {
    visits_ = std::move(visits);
    next_ = 0;
  }
  const layer_weights& take() {
    read_(visits_[next_++], weights_);
    return weights_;
  }
  void done() {}

 private:
  std::function<void(const layer_visit&, layer_weights&)> read_;
  std::vector<layer_visit> visits_;
  std::size_t next_ = 0;
  layer_weights weights_;
};

template <class T>
struct device_storage<cpu_device, T> {
  using feed = weight_reader;
  using keys = padded_key_values<T>;
};

template <class T>
struct output_piece<cpu_device, T> {
  explicit output_piece(cpu_device&) {}
  const weight_matrix& map(const cpu_device&, const weight_matrix& from) { return from; }
};

template <class T, class Out>
void multiply_map(cpu_device&, const weight_matrix& w, const map_shape& s, const T* x, Out* y,
                  product_scratch& scratch) {
  static_assert(sizeof(T) == sizeof(float) && sizeof(Out) == sizeof(float));
  auto* const products = reinterpret_cast<float*>(y);
  w.multiply(s.rows, s.out, reinterpret_cast<const float*>(x), s.x_row, products, s.out, scratch);
  if constexpr (device_kernels::rounds_to_bf16<Out>)
    for_columns(device_kernels::simd_team{}, s.rows * s.out,
                [&](auto c) { store(y, c, device_kernels::load(products, c)); });
}

}  // namespace qkgeom
