// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <numbers>

#include "capture/device_kernels.hpp"
#include "capture/device_product.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Queries of a chunk against the keys of their document so far.
template <class T>
struct attention_call {
  const T* q;      ///< (rows, heads, dim)
  const T *k, *v;  ///< (key heads, capacity, dim)
  T* out;          ///< as q
  index_t rows, first, heads, key_heads, dim, capacity;
  index_t window;  ///< tokens a query sees, itself included; `capacity` where it sees all
  double scale;    ///< of the scores
};

/// The keys that a call needs, of which the last query stands at the last.
struct attended_keys {
  index_t begin, count;  ///< from `begin` of the document on
  index_t window;        ///< of them, a query itself included; `count` where it sees all before it

  template <class T>
  explicit attended_keys(const attention_call<T>& c)
      : begin(std::max<index_t>(0, c.first - c.window + 1)),
        count(c.first + c.rows - begin),
        window(std::min(c.window, count)) {}
};

/// Causal attention block by block of keys, by batched products and an online softmax, so that memory depends on the
/// sizes of a block alone.
template <class Machine, class T>
class blockwise_attention {
 public:
  blockwise_attention(Machine& m, index_t block_rows, index_t block_keys)
      : machine_(&m),
        block_rows_(block_rows),
        block_keys_(block_keys),
        scores_(m.memory(), 0),
        top_(m.memory(), 0),
        sum_(m.memory(), 0),
        out_(m.memory(), 0),
        weights_(m.memory(), 0) {}

  /// What it holds on the machine for so many query heads of `dim`.
  static index_t working_bytes(index_t heads, index_t dim, index_t block_rows, index_t block_keys) {
    return heads * block_rows * (block_keys * static_cast<index_t>(sizeof(float) + sizeof(T)) + 4 * (dim + 2));
  }

  void operator()(const attention_call<T>& call) {
    for (index_t r = 0; r < call.rows; r += block_rows_) {
      attention_call<T> some = call;
      const index_t skip = r * call.heads * call.dim;
      some.q += skip;
      some.out += skip;
      some.rows = std::min(block_rows_, call.rows - r);
      some.first += r;
      attend(some);
    }
  }

 private:
  void attend(const attention_call<T>& c) {
    scores_.reserve(c.heads * c.rows * block_keys_);
    weights_.reserve(c.heads * c.rows * block_keys_);
    top_.reserve(c.heads * c.rows);
    sum_.reserve(c.heads * c.rows);
    out_.reserve(c.heads * c.rows * c.dim);
    const index_t end = c.first + c.rows;
    const index_t begin = std::max<index_t>(0, c.first - c.window + 1) / block_keys_ * block_keys_;
    for (index_t key = begin; key < end; key += block_keys_) {
      const index_t keys = std::min(block_keys_, end - key);
      multiply_scores(c, key, keys);
      const auto scale = static_cast<float>(std::numbers::log2e * c.scale);
      machine_->rows(c.heads * c.rows, device_kernels::weigh_scores<T>{
                                           scores_.data(), weights_.data(), top_.data(), sum_.data(), out_.data(),
                                           c.heads, c.rows, keys, c.dim, c.first, key, c.window, scale, key == begin});
      multiply_values(c, key, keys, key > begin);
    }
    machine_->rows(c.heads * c.rows,
                   device_kernels::finish_attention<T>{out_.data(), sum_.data(), c.out, c.heads, c.rows, c.dim});
  }

  // One batch runs over the key heads, for each query head of their groups.
  void multiply_scores(const attention_call<T>& c, index_t key, index_t keys) {
    const index_t group = c.heads / c.key_heads, a_head = c.rows * keys;
    const product_shape shape{
        c.rows,     keys, c.dim, {c.heads * c.dim, group * c.dim}, {c.dim, c.capacity * c.dim}, {keys, group * a_head},
        c.key_heads};
    for (index_t g = 0; g < group; ++g)
      machine_->multiply(shape, c.q + g * c.dim, c.k + key * c.dim, scores_.data() + g * a_head);
  }
  void multiply_values(const attention_call<T>& c, index_t key, index_t keys, bool adds) {
    const index_t group = c.heads / c.key_heads, a_head = c.rows * keys;
    const product_shape shape{
        c.rows,      c.dim, keys, {keys, group * a_head}, {c.dim, c.capacity * c.dim}, {c.heads * c.dim, group * c.dim},
        c.key_heads, true,  adds};
    for (index_t g = 0; g < group; ++g)
      machine_->multiply(shape, weights_.data() + g * a_head, c.v + key * c.dim, out_.data() + g * c.dim);
  }

  Machine* machine_;
  index_t block_rows_, block_keys_;
  buffer<float, typename Machine::memory_type> scores_, top_, sum_, out_;
  buffer<T, typename Machine::memory_type> weights_;
};

}  // namespace qkgeom
