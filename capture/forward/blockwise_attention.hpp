// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "capture/forward/device_buffer.hpp"
#include "capture/forward/products/product.hpp"
#include "capture/forward/team.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom::device_kernels {

inline constexpr float bits_per_nat = static_cast<float>(std::numbers::log2e);

/// Returns c tanh(x / c), or x if c is 0.
QKGEOM_HD inline float capped(float x, float c) { return c == 0 ? x : c * std::tanh(x / c); }

/// Turns the scores of one block of keys into weights relative to the largest score so far and rescales sums and output
/// of earlier blocks to it (Milakov and Gimelshein 2018). One item per (query head, row).
template <class T>
struct weigh_scores {
  const float* scores;  ///< (heads, rows, keys)
  T* weights;           ///< (heads, rows, keys)
  float *top, *sum;     ///< (heads, rows)
  float* out;           ///< (rows, heads, dim)
  index_t heads, rows, keys, dim;
  index_t first, first_key;  ///< positions of the first row and key
  index_t window;            ///< tokens a query sees, itself included
  float scale;               ///< log2(e) times the factor of the scores
  float cap;                 ///< x, scaled, becomes c tanh(x / c); 0: no cap
  bool begins;               ///< whether this is the first block
  const float* sinks;        ///< (heads) logits that enter the sums of the weights; null: no sinks

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const index_t h = item / rows, r = item % rows, t = first + r - first_key;
    const index_t low = t - window + 1 > 0 ? t - window + 1 : 0, high = t + 1 < keys ? t + 1 : keys;
    const float* const s = scores + item * keys;
    T* const p = weights + item * keys;
    const auto score = [=, this](index_t j) { return capped(s[j] * scale, cap); };
    const float before = !begins ? top[item] : sinks ? sinks[h] * bits_per_nat : -HUGE_VALF;
    float largest = -HUGE_VALF;
    for (index_t j = low + team.rank(); j < high; j += team.size()) largest = std::fmax(largest, score(j));
    largest = std::fmax(before, team.max(largest));
    float added = 0;
    for (index_t j = team.rank(); j < keys; j += team.size()) {
      const float w = j >= low && j < high ? std::exp2(score(j) - largest) : 0.0f;
      added += w;
      p[j] = to_element<T>(w);
    }
    added = team.sum(added);
    const float factor = before == -HUGE_VALF ? 0.0f : std::exp2(before - largest);
    if (!begins && factor != 1.0f) {
      float* const y = out + (r * heads + h) * dim;
      for (index_t c = team.rank(); c < dim; c += team.size()) y[c] *= factor;
    }
    if (team.rank() > 0) return;  // all have read `top` before they added up
    top[item] = largest;
    sum[item] = (begins ? 1.0f : sum[item]) * factor + added;  // the first block starts from the sink alone
  }
};

/// Divides `out` by the sums of the weights: to (rows, heads, dim). One item per (row, head).
template <class T>
struct finish_attention {
  const float *out, *sum;
  T* to;
  index_t heads, rows, dim;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const index_t h = item % heads, r = item / heads;
    const float inverse = 1.0f / sum[h * rows + r];
    for (index_t c = team.rank(); c < dim; c += team.size())
      to[item * dim + c] = to_element<T>(out[item * dim + c] * inverse);
  }
};

}  // namespace qkgeom::device_kernels

namespace qkgeom {

/// Arguments of the attention of a chunk's queries to the keys of their document so far.
template <class T>
struct attention_call {
  const T* q;      ///< (rows, heads, dim)
  const T *k, *v;  ///< (key heads, capacity, dim); cpu_device reads its padded keys instead
  T* out;          ///< as q
  index_t rows, first, heads, key_heads, dim, capacity;
  index_t window;                ///< tokens a query sees, itself included; `capacity`: all before it
  double scale;                  ///< factor of the scores
  double cap = 0;                ///< c of the cap c tanh(x / c) of scaled scores; 0: no cap
  const float* sinks = nullptr;  ///< (heads) logits of one more key of value 0; null: no such key
  index_t key_rows = 0;          ///< most rows of each head that calls for the same k and v need; 0: `capacity`
};

/// Range of the keys that a call needs; the last query stands at the last of them.
struct attended_keys {
  index_t begin, count;  ///< [begin, begin + count) of the document's keys
  index_t window;        ///< keys of the range that a query sees, itself included; `count`: all before it

  template <class T>
  explicit attended_keys(const attention_call<T>& c)
      : begin(std::max<index_t>(0, c.first - c.window + 1)),
        count(c.first + c.rows - begin),
        window(std::min(c.window, count)) {}
};

/// Computes causal attention block by block of keys, by batched products and an online softmax, so that its memory
/// depends on the sizes of a block alone.
template <class Device, class T>
class blockwise_attention {
 public:
  blockwise_attention(Device& m, index_t block_rows, index_t block_keys)
      : device_(&m), block_rows_(block_rows), block_keys_(block_keys) {}

  /// Returns the bytes on the device for `heads` query heads of `dim` channels.
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
      const auto scale = static_cast<float>(std::numbers::log2e * c.scale),
                 cap = static_cast<float>(std::numbers::log2e * c.cap);
      device_->rows(c.heads * c.rows,
                    device_kernels::weigh_scores<T>{scores_.data(), weights_.data(), top_.data(), sum_.data(),
                                                    out_.data(), c.heads, c.rows, keys, c.dim, c.first, key, c.window,
                                                    scale, cap, key == begin, c.sinks});
      multiply_values(c, key, keys, key > begin);
    }
    device_->rows(c.heads * c.rows,
                  device_kernels::finish_attention<T>{out_.data(), sum_.data(), c.out, c.heads, c.rows, c.dim});
  }

  // One batch runs over the key heads, for each query head of their groups.
  void multiply_scores(const attention_call<T>& c, index_t key, index_t keys) {
    const index_t group = c.heads / c.key_heads, a_head = c.rows * keys;
    const product_shape shape{
        c.rows,     keys, c.dim, {c.heads * c.dim, group * c.dim}, {c.dim, c.capacity * c.dim}, {keys, group * a_head},
        c.key_heads};
    for (index_t g = 0; g < group; ++g)
      device_->multiply(shape, c.q + g * c.dim, c.k + key * c.dim, scores_.data() + g * a_head);
  }
  void multiply_values(const attention_call<T>& c, index_t key, index_t keys, bool adds) {
    const index_t group = c.heads / c.key_heads, a_head = c.rows * keys;
    const product_shape shape{
        c.rows,      c.dim, keys, {keys, group * a_head}, {c.dim, c.capacity * c.dim}, {c.heads * c.dim, group * c.dim},
        c.key_heads, true,  adds};
    for (index_t g = 0; g < group; ++g)
      device_->multiply(shape, weights_.data() + g * a_head, c.v + key * c.dim, out_.data() + g * c.dim);
  }

  Device* device_;
  index_t block_rows_, block_keys_;
  device_buffer<Device, float> scores_{*device_}, top_{*device_}, sum_{*device_}, out_{*device_};
  device_buffer<Device, T> weights_{*device_};
};

}  // namespace qkgeom
