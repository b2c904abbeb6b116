// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "capture/forward/device_buffer.hpp"
#include "capture/forward/experts.hpp"
#include "capture/forward/forward_pass.hpp"
#include "capture/forward/kernels.hpp"
#include "capture/forward/weight_feed.hpp"
#include "capture/model/description.hpp"
#include "capture/model/head_changes.hpp"
#include "qkgeom/rotary/embedding.hpp"

// Memory of a decoder on a device, without weights.
namespace qkgeom {

/// Keys and values of a layer on a device, (heads, capacity, dim). All are finite: an attention may multiply rows that
/// no query sees by 0.
template <class Device, class T>
class key_value_rows {
 public:
  explicit key_value_rows(Device& m) : device_(&m) {}

  void reserve(index_t tokens, index_t heads, index_t dim) {
    const index_t before = k_.size();
    capacity_ = tokens;
    dim_ = dim;
    k_.reserve(heads * tokens * dim);
    v_.reserve(heads * tokens * dim);
    if (k_.size() > before) device_->rows(heads * tokens, device_kernels::clear_keys<T>{keys(), values(), dim});
  }
  T* keys() { return k_.data(); }
  T* values() { return v_.data(); }
  index_t capacity() const { return capacity_; }
  index_t row_stride() const { return dim_; }
  index_t head_stride() const { return capacity_ * dim_; }

 private:
  Device* device_;
  device_buffer<Device, T> k_{*device_}, v_{*device_};
  index_t capacity_ = 0, dim_ = 0;
};

/// Types that hold a device's weights, keys and values; cpu_device.hpp specialises it for the CPU.
template <class Device, class T>
struct device_storage {
  using feed = weight_feed<Device, T>;
  using keys = key_value_rows<Device, T>;
};

/// cos and sin of a document's positions, (positions, half).
template <class Device>
struct rotary_tables {
  explicit rotary_tables(Device& m) : cos(m), sin(m) {}
  void make(const rope_description& rope, index_t n, bool to_bf16) {
    const rope_table made = make_rope_table(rope, n, to_bf16 && !rope.exact_table);
    cos.set(made.cos);
    sin.set(made.sin);
    half = made.half;
    positions = n;
  }
  device_buffer<Device, float> cos, sin;
  index_t half = 0, positions = 0;
};

/// Queries (rows, query heads, d) of the rows that are in a layer together, the results of their attention, and keys
/// and values of their document.
template <class Device, class T>
struct document_rows {
  explicit document_rows(Device& m)
      : q(m), attended(m), side(m), convolved(m), state(m), index_q(m), index_weights(m), index_keys(m), keys(m) {}
  device_buffer<Device, T> q, attended;
  device_buffer<Device, T> side;                  // gates of the attention, or a delta net's inputs, see `side_rows`
  device_buffer<Device, float> convolved, state;  // of a delta net
  // Of an indexer: (rows, heads, d), (rows, heads) and, of the whole document, (tokens, d).
  device_buffer<Device, T> index_q, index_weights, index_keys;
  typename device_storage<Device, T>::keys keys;

  /// Reserves memory for `rows` rows of documents of `tokens`; keys and values reserve their own.
  void reserve(const decoder_description& d, index_t rows, index_t tokens) {
    if (d.indexer) {
      index_q.reserve(rows * d.indexer->heads * d.indexer->dim);
      index_weights.reserve(rows * d.indexer->heads);
      index_keys.reserve(tokens * d.indexer->dim);
    }
    q.reserve(rows * row_width(d));
    if (!Device::whole_documents) attended.reserve(rows * row_width(d));
    side.reserve(side_width(d) * (rows + rows_before(d)));
    if (!d.delta) return;
    convolved.reserve(rows * d.delta->state_width());
    state.reserve(d.delta->values() * d.delta->key_dim);
  }
  static index_t bytes(const decoder_description& d, index_t rows, index_t tokens) {
    index_t elements = 2 * rows * row_width(d) + side_width(d) * (rows + rows_before(d));
    if (d.indexer) elements += rows * d.indexer->heads * (d.indexer->dim + 1) + tokens * d.indexer->dim;
    const index_t floats = d.delta ? rows * d.delta->state_width() + d.delta->values() * d.delta->key_dim : 0;
    return elements * static_cast<index_t>(sizeof(T)) + floats * static_cast<index_t>(sizeof(float));
  }
  /// Returns `side` from the layer's rows on; before them stand the rows that a convolution reaches back to.
  T* side_rows(const decoder_description& d) { return side.data() + rows_before(d) * (d.delta ? d.delta->width() : 0); }
  static index_t rows_before(const decoder_description& d) { return d.delta ? d.delta->kernel - 1 : 0; }

  /// Returns the results of the attention, which on a device with `whole_documents` replace the queries.
  T* attention() const { return Device::whole_documents ? q.data() : attended.data(); }

 private:
  static index_t row_width(const decoder_description& d) {
    return std::max(d.query_heads * d.widest_head(), d.delta ? d.delta->values() : 0);
  }
  static index_t side_width(const decoder_description& d) {
    return std::max(d.gated_output ? d.query_heads * d.widest_head() : 0, d.delta ? d.delta->width() : 0);
  }
};

/// A document on its way through the layers.
template <class Device, class T>
struct document_pass {
  using tables = rotary_tables<Device>;
  std::size_t number;
  token_span ids;
  index_t tokens;
  device_buffer<Device, T> hidden;                     // (tokens, hidden)
  device_buffer<Device, std::int32_t> chosen;          // (tokens, indexer's) keys that the attention sees; empty: all
  std::optional<tables> own_rope{}, own_local_rope{};  // if the document's length changes its rotation
  const tables *rope = nullptr, *local_rope = nullptr;
  document_rows<Device, T>* rows = nullptr;

  /// Returns the entries of `chosen` for a document of so many tokens.
  static index_t chosen_entries(const decoder_description& d, index_t tokens) {
    return d.indexer && tokens > d.indexer->chosen ? tokens * d.indexer->chosen : 0;
  }
};

/// Rows [first, first + rows) of a document; q and attended point to its first row, which has the number `place` among
/// the rows that are in the layer together.
template <class Device, class T>
struct row_chunk {
  document_pass<Device, T>* document;
  index_t first, rows;
  T *q, *attended;
  index_t place;
};

/// Working memory of the chunk that one worker computes.
template <class Device, class T>
struct chunk_memory {
  explicit chunk_memory(Device& m)
      : normed(m), block(m), active(m), latent(m), shared_gate(m), wide(m), narrow(m), experts(m) {}

  void reserve(const decoder_description& d, index_t rows) {
    normed.reserve(rows * d.hidden);
    block.reserve(rows * block_width(d));
    active.reserve(rows * active_width(d));
    latent.reserve(rows * latent_width(d));
    if (d.experts && d.experts->gated_shared) shared_gate.reserve(rows);
    wide.reserve(rows * wide_width(d));
    narrow.reserve(rows * d.hidden);
  }
  static index_t working_bytes(const decoder_description& d, index_t rows) {
    return rows * (static_cast<index_t>(sizeof(T)) * (d.hidden + block_width(d) + active_width(d) + latent_width(d)) +
                   static_cast<index_t>(sizeof(float)) * (wide_width(d) + d.hidden)) +
           (d.experts ? mixture_of_experts<Device, T>::working_bytes(d, rows) : 0);
  }
  /// Returns whether activations overwrite the product. A bias in f32 needs separate rows for bf16 results.
  static bool activates_in_place(const decoder_description& d) {
    return sizeof(T) == sizeof(float) || !d.feed_forward_bias;
  }

  device_buffer<Device, T> normed, block, active;  // (rows, hidden), (rows, hidden), (rows, feed-forward)
  device_buffer<Device, T> latent;                 // (rows, latent_width)
  device_buffer<Device, T> shared_gate;            // (rows)
  device_buffer<Device, float> wide, narrow;       // results of products; narrow: (rows, hidden)
  mixture_of_experts<Device, T> experts;
  product_scratch product;

  /// Returns the length of a token's latent rows of q and k, with the rotated part of the key; 0 without them.
  static index_t latent_width(const decoder_description& d) {
    return d.latent ? d.latent->query_rank + d.latent->key_rank + d.latent->rotated : 0;
  }

 private:
  /// Returns the width of the widest feed-forward besides the experts'; shared experts count.
  static index_t dense_width(const decoder_description& d) {
    const bool any =
        std::any_of(d.layers.begin(), d.layers.end(), [](const auto& l) { return !l.experts && !l.skipped; });
    return std::max(any ? d.feed_forward : 0, d.experts ? d.experts->shared_width : 0);
  }
  static index_t wide_width(const decoder_description& d) {
    const bool gated = d.feed_forward_form != feed_forward_kind::not_gated;
    return std::max({(d.gated_output ? 2 : 1) * d.query_heads * d.widest_head() + 2 * d.widest_keys(),
                     (gated ? 2 : 1) * dense_width(d), latent_width(d),
                     d.indexer ? d.indexer->heads * d.indexer->dim : 0});
  }
  static index_t block_width(const decoder_description& d) {
    return d.parallel_residual && !d.adds_in_order ? d.hidden : 0;
  }
  static index_t active_width(const decoder_description& d) { return activates_in_place(d) ? 0 : dense_width(d); }
};

/// Changes of a layer's heads for `change_keys`, `rotate_rows` and `clear_heads`, in documents of up to `tokens`
/// tokens.
template <class Device>
struct layer_changes {
  layer_changes(Device& m, const std::vector<head_change>& changes, const decoder_description& model, index_t layer,
                index_t longest)
      : slope_of(m), cleared(m), cached_as(m), slopes(m), centres(m), rope_of(m), cos(m), sin(m), tokens(longest) {
    const rope_description& rope = model.rope_of(model.layers[layer]);
    const index_t query_heads = model.query_heads;
    std::vector<std::int32_t> slope_rows(query_heads, -1), types(query_heads, -1), ropes(query_heads, -1),
        cleared_heads;
    std::vector<double> all_slopes, all_centres;
    std::vector<const rope_description*> others;
    rope_table rotations;
    for (const head_change& c : changes) {
      if (c.head.layer != layer) continue;
      if (c.ablate) cleared_heads.push_back(static_cast<std::int32_t>(c.head.head));
      if (c.keys_as) types[c.head.head] = static_cast<std::int32_t>(*c.keys_as);
      of_keys_ = of_keys_ || c.keys_as || c.rope || !c.key_slope.empty();
      if (c.rope) {
        const auto same = std::find_if(others.begin(), others.end(), [&](auto* r) { return *r == *c.rope; });
        ropes[c.head.head] = static_cast<std::int32_t>(same - others.begin());
        if (same == others.end()) {
          others.push_back(&*c.rope);
          const rope_table t = make_rotation_table(rope, *c.rope, tokens);
          rotations.cos.insert(rotations.cos.end(), t.cos.begin(), t.cos.end());
          rotations.sin.insert(rotations.sin.end(), t.sin.begin(), t.sin.end());
        }
      }
      if (c.key_slope.empty()) continue;
      slope_rows[c.head.head] = static_cast<std::int32_t>(all_centres.size());
      all_slopes.insert(all_slopes.end(), c.key_slope.begin(), c.key_slope.end());
      all_centres.push_back(c.centre);
    }
    cleared.set(cleared_heads);
    if (!of_keys_) return;
    slope_of.set(slope_rows);
    cached_as.set(types);
    slopes.set(all_slopes);
    centres.set(all_centres);
    rope_of.set(ropes);
    cos.set(rotations.cos);
    sin.set(rotations.sin);
  }
  bool of_keys() const { return of_keys_; }

  device_buffer<Device, std::int32_t> slope_of, cleared, cached_as;
  device_buffer<Device, double> slopes, centres;
  device_buffer<Device, std::int32_t> rope_of;
  device_buffer<Device, float> cos, sin;  ///< (other embeddings, tokens, half); empty: none
  index_t tokens;

 private:
  bool of_keys_ = false;
};

}  // namespace qkgeom
