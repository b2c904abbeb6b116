// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "capture/forward/blockwise_attention.hpp"
#include "capture/forward/decoder_memory.hpp"
#include "capture/forward/delta.hpp"
#include "capture/forward/indexer.hpp"
#include "capture/forward/kernels.hpp"
#include "capture/forward/latent.hpp"
#include "capture/forward/linear_map.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Steps of a layer, for a chunk of rows each: the one place that says what a decoder computes. A family's own step
/// belongs here.
template <class Device, class T>
class layer_steps {
 public:
  static constexpr memory_space space = Device::memory_type::space;
  using chunk = row_chunk<Device, T>;
  using pass = document_pass<Device, T>;
  using workspace = chunk_memory<Device, T>;
  using changes_type = layer_changes<Device>;
  using layer_type = typename device_storage<Device, T>::feed::layer_type;
  using keys_type = typename device_storage<Device, T>::keys;
  using attention_type = blockwise_attention<Device, T>;

  /// Takes arguments that must outlive it, and the rows and keys of a block of the attention.
  layer_steps(Device& m, const decoder_description& d, index_t attention_rows, index_t attention_keys)
      : device_(&m),
        description_(d),
        attention_(m, attention_rows, attention_keys),
        sparse_(m),
        own_keys_(m),
        chunk_keys_(m) {}

  index_t query_width(const layer_description& layer) const {
    return description_.query_heads * description_.heads_of(layer).head_dim;
  }
  /// Returns the width of the output matrix's input, in rows of `row_chunk::attended`.
  index_t attended_width(const layer_description& layer) const {
    return layer.delta ? description_.delta->values() : query_width(layer);
  }
  /// Returns the number of gates on a row of the attention's result.
  index_t gate_width(const layer_description& layer) const {
    return !description_.gated_output ? 0 : description_.gated_heads ? description_.query_heads : query_width(layer);
  }
  tensor_view<const T, space> query_view(const chunk& c, const layer_description& layer) const {
    const index_t dim = description_.heads_of(layer).head_dim;
    return {c.q, c.rows, description_.query_heads, dim, query_width(layer), dim};
  }
  tensor_view<const T, space> key_view(const pass& p, const layer_description& layer, index_t first,
                                       index_t rows) const {
    const head_shape heads = description_.heads_of(layer);
    keys_type& keys = p.rows->keys;
    return {keys.keys() + first * keys.row_stride(),
            rows,
            heads.key_heads,
            heads.head_dim,
            keys.row_stride(),
            keys.head_stride()};
  }

  /// Returns the queries of a chunk's indexer, and their keys.
  tensor_view<const T, space> index_query_view(const chunk& c) const {
    const indexer_description& i = *description_.indexer;
    return {index_queries(c), c.rows, i.heads, i.dim, i.heads * i.dim, i.dim};
  }
  tensor_view<const T, space> index_key_view(const chunk& c) const {
    const index_t dim = description_.indexer->dim;
    return {c.document->rows->index_keys.data() + c.first * dim, c.rows, 1, dim, dim, dim};
  }

  /// Computes queries, keys and values of a chunk: norm, linear map, norms and, if `rotates`, the rotary embedding.
  void project(const chunk& c, const layer_description& layer, bool only_qk, const layer_type& weights, bool rotates,
               workspace& w) {
    const decoder_description& d = description_;
    const index_t queries = query_width(layer), kept = queries + (only_qk ? 1 : 2) * d.heads_of(layer).key_width();
    const index_t gates = only_qk ? 0 : gate_width(layer), width = kept + gates;
    const T* x = states_of(c);
    if (!d.names_of(layer).attention_norm.empty()) {
      device_->rows(c.rows,
                    device_kernels::norm_rows<T>{x, w.normed.data(), d.hidden, norm_of(weights.attention_norm)});
      x = w.normed.data();
    }
    if (layer.delta) {
      const index_t all = d.delta->width();
      return multiply_map(*device_, weights.qkv.w, {c.rows, all, d.hidden, d.hidden}, x,
                          c.document->rows->side_rows(d) + c.place * all, w.product);
    }
    if (d.latent) return project_latent(c, layer, only_qk, weights, rotates, x, w);
    const device_kernels::norm_parameters q_norm = norm_of(weights.q_norm), k_norm = norm_of(weights.k_norm);
    const auto v_norm = d.value_norm ? norm_of(weights.v_norm) : device_kernels::norm_parameters{};
    const qk_norm before = d.qk == qk_norm::each_head || d.qk == qk_norm::all_heads ? d.qk : qk_norm::none;
    T* const values = only_qk ? nullptr : c.document->rows->keys.values();
    linear(
        weights.qkv, d.qkv_bias, {c.rows, width, d.hidden, d.hidden}, x, w.wide.data(), w,
        [&]<class In>(In* wide, const float* bias) {
          if (gates > 0)
            device_->rows(c.rows, device_kernels::take_gates<In, T>{wide, width, kept, gates, bias,
                                                                    c.document->rows->side.data() + c.place * gates});
          device_->rows(
              c.rows, device_kernels::finish_projection<In, T>{wide, width, kept, bias, values, before, q_norm, k_norm,
                                                               v_norm, rotates, rotation_of(c, layer, weights)});
        });
  }

  void rotate(const chunk& c, const layer_description& layer, const layer_type& weights) {
    device_->rows(c.rows, rotation_of(c, layer, weights));
    if (layer.indexer) device_->rows(c.rows, index_rotation_of(c, layer));
  }

  /// Computes the attention of a chunk's rows to all keys so far, with the changes of heads.
  void attend(const chunk& c, const layer_description& layer, const layer_type& weights, const changes_type& changes) {
    const decoder_description& d = description_;
    if (layer.delta) return run_delta(c, weights);
    const head_shape heads = d.heads_of(layer);
    keys_type& all_keys = c.document->rows->keys;
    const bool own = changes.of_keys();
    keys_type& keys = own ? own_keys_ : all_keys;
    const index_t capacity = all_keys.capacity();
    if (own) {
      if (c.first == 0) keys.reserve(capacity, d.query_heads, heads.head_dim);
      device_->rows(
          c.rows, device_kernels::change_keys<T>{places_of(c, layer), all_keys.values(), keys.keys(), keys.values(),
                                                 changes.slope_of.data(), changes.slopes.data(), changes.centres.data(),
                                                 changes.cached_as.data()});
      if (changes.cos.size() > 0) {
        const rope_description& rope = d.rope_of(layer);
        auto places = places_of(c, layer);
        places.k = keys.keys();
        places.key_heads = d.query_heads;
        device_kernels::rotate_rows<T> rotation{places, changes.cos.data(), changes.sin.data(), rope.rotary_dim / 2};
        rotation.interleaved = rope.interleaved;
        rotation.exact = true;
        rotation.rotated_from = rope.first;
        rotation.table_of = changes.rope_of.data();
        rotation.table_size = changes.tokens * rotation.half;
        device_->rows(c.rows, rotation);
      }
    }
    const attention_call<T> call{c.q,
                                 keys.keys(),
                                 keys.values(),
                                 c.attended,
                                 c.rows,
                                 c.first,
                                 d.query_heads,
                                 own ? d.query_heads : heads.key_heads,
                                 heads.head_dim,
                                 capacity,
                                 std::min(layer.window.value_or(capacity), capacity),
                                 d.score_scale.value_or(1 / std::sqrt(static_cast<double>(heads.head_dim))),
                                 d.score_cap,
                                 d.sinks ? weights.sinks.data() : nullptr};
    if (c.document->chosen.size() > 0)
      attend_sparsely(c, layer, call, keys);
    else if (layer.chunk)
      attend_chunks(call, keys, *layer.chunk);
    else
      attend(call, keys);
    if (d.gated_heads)
      device_->rows(c.rows, device_kernels::multiply_heads<T>{c.document->rows->side.data(), c.attended, d.query_heads,
                                                              heads.head_dim});
    else if (d.gated_output)
      device_->rows(c.rows,
                    device_kernels::multiply_row<T>{c.document->rows->side.data(), c.attended, query_width(layer)});
    if (changes.cleared.size() > 0)
      device_->rows(c.rows, device_kernels::clear_heads<T>{c.attended, d.query_heads, heads.head_dim,
                                                           changes.cleared.data(), changes.cleared.size()});
  }
  /// Computes the rest of a layer, from the output matrix of the attention on.
  void finish(const chunk& c, const layer_description& layer, const layer_type& weights, workspace& w) {
    const decoder_description& d = description_;
    const weight_names& names = d.names_of(layer);
    T* const states = states_of(c);
    const bool norms = !names.feed_forward_norm.empty(), parallel = d.parallel_residual;
    const bool apart = parallel && !d.adds_in_order;  // the attention's result waits for the feed-forward's
    const auto scale = static_cast<float>(d.residual_scale);
    const T* x = norms ? w.normed.data() : states;
    if (parallel && norms)
      device_->rows(
          c.rows, device_kernels::norm_rows<T>{states, w.normed.data(), d.hidden, norm_of(weights.feed_forward_norm)});
    const index_t value_dim = d.value_dim(layer), head_dim = d.heads_of(layer).head_dim;
    const index_t attended_row = layer.delta ? attended_width(layer) : d.query_heads * value_dim;
    const T* attended = c.attended;
    if (!layer.delta && value_dim != head_dim) {
      T* const kept = reinterpret_cast<T*>(w.wide.data());
      device_->rows(c.rows, device_kernels::keep_channels<T>{c.attended, d.query_heads, head_dim, value_dim, kept});
      attended = kept;
    }
    linear(weights.output, d.output_bias, {c.rows, d.hidden, attended_row, attended_row}, attended, w.narrow.data(), w,
           [&]<class In>(const In* wide, const float* bias) {
             device_->rows(
                 c.rows,
                 device_kernels::finish_block<In, T>{
                     wide, d.hidden, bias, norm_of(names.attention_out_norm, weights.attention_out_norm), nullptr,
                     !apart, apart ? w.block.data() : states,
                     norms && !parallel ? norm_of(weights.feed_forward_norm) : device_kernels::norm_parameters{},
                     w.normed.data(), scale});
           });
    const T* also = apart ? w.block.data() : nullptr;  // added besides the feed-forward
    const T* row_gate = nullptr;
    const auto close = [&]<class In>(const In* wide, const float* bias) {
      device_->rows(c.rows, device_kernels::finish_block<In, T>{
                                wide,
                                d.hidden,
                                bias,
                                norm_of(names.feed_forward_out_norm, weights.feed_forward_out_norm),
                                also,
                                true,
                                states,
                                {},
                                nullptr,
                                scale,
                                row_gate,
                                d.layer_factor ? weights.factor.data() : nullptr});
    };
    if (layer.experts) {
      const T* const chosen = w.experts(weights, d, c.rows, x, w.product);
      if (d.experts->shared_width == 0) return close(chosen, static_cast<const float*>(nullptr));
      also = chosen;
      if (d.experts->gated_shared) {
        multiply_map(*device_, weights.shared_gate.w, {c.rows, 1, d.hidden, d.hidden}, x, w.shared_gate.data(),
                     w.product);
        row_gate = w.shared_gate.data();
      }
    }
    const index_t width = layer.experts ? d.experts->shared_width : d.feed_forward;
    const bool gated = d.feed_forward_form != feed_forward_kind::not_gated, in_place = workspace::activates_in_place(d);
    const index_t wide_row = gated ? 2 * width : width, active_row = in_place ? wide_row : width;
    T* const active = in_place ? reinterpret_cast<T*>(w.wide.data()) : w.active.data();
    linear(weights.feed_forward.up, d.feed_forward_bias, {c.rows, wide_row, d.hidden, d.hidden}, x, w.wide.data(), w,
           [&]<class In>(const In* wide, const float* bias) {
             device_->rows(c.rows,
                           device_kernels::activate_rows<In, T>{wide, width, bias, d.act, gated, active, active_row});
           });
    linear(weights.feed_forward.down, d.feed_forward_bias, {c.rows, d.hidden, width, active_row}, active,
           w.narrow.data(), w, close);
  }

 private:
  static constexpr bool rounds = device_kernels::rounds_to_bf16<T>;
  /// Runs a net in place of attention on the rows that `project` left, into c.attended; chunks of a document come in
  /// order.
  void run_delta(const chunk& c, const layer_type& weights) {
    const decoder_description& d = description_;
    const delta_description& net = *d.delta;
    auto& rows = *c.document->rows;
    const index_t width = net.width(), before = rows.rows_before(d);
    T* const taken = rows.side_rows(d);
    if (c.first == 0) {
      device_->rows(before, device_kernels::clear_row<T>{rows.side.data(), width});
      device_->rows(net.value_heads * net.key_dim, device_kernels::clear_row<float>{rows.state.data(), net.value_dim});
    }
    if (net.kind == net_kind::convolution) {
      device_->rows(c.rows,
                    device_kernels::convolve_products<T>{taken, net, weights.delta.convolution.data(), c.attended});
    } else {
      const bool skips = net.kind == net_kind::state_space;
      device_->rows(c.rows, device_kernels::convolve_rows<T>{
                                taken, net, weights.delta.convolution.data(), weights.delta.keep_bias.data(),
                                weights.delta.keep_log.data(), rows.convolved.data(),
                                net.convolution_bias ? weights.delta.bias.data() : nullptr});
      device_->rows(net.value_heads,
                    device_kernels::delta_rule<T>{rows.convolved.data(), net, c.rows, rows.state.data(), c.attended,
                                                  skips ? weights.delta.skip.data() : nullptr});
      device_->rows(c.rows, device_kernels::gate_answers<T>{
                                taken,
                                net,
                                {weights.delta.norm.data(), nullptr, skips ? norm_kind::olmo : norm_kind::llama,
                                 static_cast<float>(net.norm_eps.value_or(d.norm_eps))},
                                c.attended});
    }
    // Keeps the rows that the next chunk's convolution reaches back to.
    if (c.rows >= before)
      device_->rows(before, device_kernels::copy_row<T>{taken + (c.rows - before) * width, rows.side.data(), width});
  }

  /// Computes queries, keys and values of latent attention from x (rows, hidden).
  void project_latent(const chunk& c, const layer_description& layer, bool only_qk, const layer_type& weights,
                      bool rotates, const T* x, workspace& w) {
    const decoder_description& d = description_;
    const latent_description& l = *d.latent;
    const index_t stride = workspace::latent_width(d), key_row = d.key_heads * (l.plain + l.value_dim);
    const auto norm_of_rows = [](const auto& of) {
      return device_kernels::norm_parameters{of.data(), nullptr, norm_kind::llama,
                                             static_cast<float>(latent_description::eps)};
    };
    linear(weights.latent.down, l.bias, {c.rows, stride, d.hidden, d.hidden}, x, w.wide.data(), w,
           [&]<class In>(const In* wide, const float* bias) {
             device_->rows(c.rows,
                           device_kernels::norm_latents<In, T>{wide, bias, l.query_rank, l.key_rank, stride,
                                                               norm_of_rows(weights.latent.query_norm),
                                                               norm_of_rows(weights.latent.key_norm), w.latent.data()});
           });
    if (layer.indexer) project_indexer(c, layer, only_qk, weights, rotates, x, w);
    T* const wide = reinterpret_cast<T*>(w.wide.data());
    const device_kernels::head_parts<T> parts{l.plain, l.rotated, l.pairs};
    const map_shape to_queries = l.query_rank > 0 ? map_shape{c.rows, query_width(layer), l.query_rank, stride}
                                                  : map_shape{c.rows, query_width(layer), d.hidden, d.hidden};
    multiply_map(*device_, weights.latent.queries.w, to_queries, l.query_rank > 0 ? w.latent.data() : x, wide,
                 w.product);
    device_->rows(c.rows, device_kernels::place_latent_queries<T>{wide, places_of(c, layer), parts});
    multiply_map(*device_, weights.latent.keys.w, {c.rows, key_row, l.key_rank, stride}, w.latent.data() + l.query_rank,
                 wide, w.product);
    device_->rows(c.rows,
                  device_kernels::place_latent_keys<T>{wide, w.latent.data() + l.query_rank + l.key_rank, stride,
                                                       l.value_dim, only_qk ? nullptr : c.document->rows->keys.values(),
                                                       parts, rotates, rotation_of(c, layer, weights)});
  }

  /// Computes queries, key and weights of an indexer from x (rows, hidden) and the latent rows of queries.
  void project_indexer(const chunk& c, const layer_description& layer, bool only_qk, const layer_type& weights,
                       bool rotates, const T* x, workspace& w) {
    const decoder_description& d = description_;
    const indexer_description& i = *d.indexer;
    auto& rows = *c.document->rows;
    T* const wide = reinterpret_cast<T*>(w.wide.data());
    const index_t rotated = d.latent->rotated;
    const auto place = [&](index_t heads, const device_kernels::norm_parameters& norm, T* to) {
      device_->rows(c.rows, device_kernels::place_index_rows<T>{
                                wide, to, heads, i.dim, norm, {0, rotated, i.pairs}, {i.dim - rotated, 0, false}});
    };
    multiply_map(*device_, weights.indexer.queries.w,
                 {c.rows, i.heads * i.dim, d.latent->query_rank, workspace::latent_width(d)}, w.latent.data(), wide,
                 w.product);
    place(i.heads, {}, index_queries(c));
    multiply_map(*device_, weights.indexer.key.w, {c.rows, i.dim, d.hidden, d.hidden}, x, wide, w.product);
    const auto& norm = weights.indexer.key_norm;
    place(1, {norm.w.data(), norm.b.data(), norm_kind::layer, static_cast<float>(latent_description::eps)},
          rows.index_keys.data() + c.first * i.dim);
    if (rotates) device_->rows(c.rows, index_rotation_of(c, layer));
    if (!only_qk)
      multiply_map(*device_, weights.indexer.weights.w, {c.rows, i.heads, d.hidden, d.hidden}, x,
                   rows.index_weights.data() + c.place * i.heads, w.product);
  }
  T* index_queries(const chunk& c) const {
    const indexer_description& i = *description_.indexer;
    return c.document->rows->index_q.data() + c.place * i.heads * i.dim;
  }

  /// Attends to the keys that the layer's indexer chooses, or one before it chose.
  void attend_sparsely(const chunk& c, const layer_description& layer, const attention_call<T>& call, keys_type& keys) {
    const indexer_description& i = *description_.indexer;
    auto& rows = *c.document->rows;
    std::int32_t* const chosen = c.document->chosen.data() + c.first * i.chosen;
    if (layer.indexer)
      sparse_.choose(i, index_queries(c), rows.index_weights.data() + c.place * i.heads, rows.index_keys.data(),
                     c.first, c.rows, chosen);
    sparse_.attend(call, keys.row_stride(), keys.head_stride(), chosen, i.chosen);
  }

  device_kernels::chunk_places<T> places_of(const chunk& c, const layer_description& layer) const {
    const head_shape heads = description_.heads_of(layer);
    keys_type& keys = c.document->rows->keys;
    return {c.q,
            keys.keys(),
            c.first,
            description_.query_heads,
            heads.key_heads,
            heads.head_dim,
            keys.row_stride(),
            keys.head_stride()};
  }
  device_kernels::rotate_rows<T> rotation_of(const chunk& c, const layer_description& layer,
                                             const layer_type& weights) const {
    const decoder_description& d = description_;
    device_kernels::rotate_rows<T> rotation{places_of(c, layer)};
    if (d.norms_rotated(layer)) {
      rotation.q_norm = norm_of(weights.q_norm);
      rotation.k_norm = norm_of(weights.k_norm);
    }
    if (layer.rope) set_rotation(c, layer, rotation);
    if (d.growth && !(d.growth_unrotated && layer.rope)) {
      rotation.counts_from_1 = d.growth_unrotated;
      rotation.growth = static_cast<float>(d.growth->beta);
      rotation.growth_context = d.growth->context;
    }
    return rotation;
  }
  device_kernels::rotate_rows<T> index_rotation_of(const chunk& c, const layer_description& layer) const {
    const indexer_description& i = *description_.indexer;
    device_kernels::rotate_rows<T> rotation{
        {index_queries(c), c.document->rows->index_keys.data(), c.first, i.heads, 1, i.dim, i.dim, 0}};
    set_rotation(c, layer, rotation);
    rotation.rotated_from = 0;
    return rotation;
  }
  /// Gives a rotation the rotary embedding of a layer.
  void set_rotation(const chunk& c, const layer_description& layer, device_kernels::rotate_rows<T>& rotation) const {
    const rope_description& rope = description_.rope_of(layer);
    const rotary_tables<Device>& t = layer.local_rope ? *c.document->local_rope : *c.document->rope;
    rotation.cos = t.cos.data();
    rotation.sin = t.sin.data();
    rotation.half = t.half;
    rotation.rotated_from = rope.first;
    rotation.interleaved = rope.interleaved;
    rotation.exact = rope.exact;
  }

  /// Returns the parameters of a norm; norms of queries and keys have no biases.
  template <class Norm>
  device_kernels::norm_parameters norm_of(const Norm& w) const {
    const auto eps = static_cast<float>(description_.norm_eps);
    if constexpr (requires { w.b; })
      return {w.w.data(), w.b.data(), description_.norm, eps};
    else
      return {w.data(), nullptr, description_.norm, eps};
  }
  template <class Norm>
  device_kernels::norm_parameters norm_of(const std::string& name, const Norm& w) const {
    return name.empty() ? device_kernels::norm_parameters{} : norm_of(w);
  }

  /// Computes y (rows, s.out) = x w^T, then calls use(y): in T, or in f32 where a bias is added before rounding.
  template <class Map, class Use>
  void linear(const Map& map, bool biased, const map_shape& s, const T* x, float* y, workspace& w, const Use& use) {
    if (biased || !rounds) {
      multiply_map(*device_, map.w, s, x, y, w.product);
      use(y, biased ? map.b.data() : nullptr);
    } else {
      T* const rounded = reinterpret_cast<T*>(y);
      multiply_map(*device_, map.w, s, x, rounded, w.product);
      use(rounded, static_cast<const float*>(nullptr));
    }
  }

  T* states_of(const chunk& c) const { return c.document->hidden.data() + c.first * description_.hidden; }

  /// Attends within each chunk of a document alone. For a device that takes whole documents, a chunk's keys are copied.
  void attend_chunks(const attention_call<T>& all, keys_type& keys, index_t size) {
    for (index_t first = all.first; first < all.first + all.rows;) {
      const index_t start = first / size * size, end = std::min(start + size, all.first + all.rows);
      attention_call<T> call = all;
      call.q += (first - all.first) * all.heads * all.dim;
      call.out += (first - all.first) * all.heads * all.dim;
      call.rows = end - first;
      call.first = first - start;
      call.window = all.capacity;
      if constexpr (Device::whole_documents) {
        chunk_keys_.reserve(end - start, all.key_heads, all.dim);
        device_->rows(end - start,
                      device_kernels::copy_keys<T>{
                          keys.keys() + start * keys.row_stride(), keys.values() + start * keys.row_stride(),
                          keys.row_stride(), keys.head_stride(), chunk_keys_.keys(), chunk_keys_.values(),
                          chunk_keys_.row_stride(), chunk_keys_.head_stride(), all.key_heads, all.dim});
        call.window = end - start;
        attend(call, chunk_keys_);
      } else {
        call.k += start * keys.row_stride();
        call.v += start * keys.row_stride();
        call.key_rows = std::min(size, all.capacity - start);
        attend(call, keys);
      }
      first = end;
    }
  }
  void attend(const attention_call<T>& call, [[maybe_unused]] const keys_type& keys) {
    if constexpr (requires { device_->attend(call, keys); }) {
      device_->attend(call, keys);
    } else {
      if constexpr (requires { device_->attend(call); })
        if (device_->attend(call)) return;
      attention_(call);
    }
  }

  Device* device_;
  const decoder_description& description_;
  attention_type attention_;
  sparse_attention<Device, T> sparse_;
  keys_type own_keys_;    // per query head, in layers with changed keys
  keys_type chunk_keys_;  // of one chunk, for `attend_chunks`
};

}  // namespace qkgeom
