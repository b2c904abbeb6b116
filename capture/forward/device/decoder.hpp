// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/forward/decoder.hpp"
#include "capture/forward/device/attention.hpp"
#include "capture/forward/device/experts.hpp"
#include "capture/forward/device/kernels.hpp"
#include "capture/forward/device/losses.hpp"
#include "capture/forward/device/weights.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

struct device_decoder_options {
  index_t chunk = 4096;           ///< rows of a document that go through a layer together
  index_t attention_rows = 1024;  ///< of a block of the blockwise attention
  index_t attention_keys = 2048;
  index_t resident = 0;  ///< bytes of weights that stay on the device; the other layers stream through it
};

/// Called for each layer of a document, chunk after chunk, with q (rows, query heads, d) and k (rows, key heads, d) of
/// the rows from position `first` on. The values are on the device and valid during the call.
template <class T, memory_space Space>
using device_row_sink = std::function<void(std::size_t document, index_t layer, index_t first,
                                           tensor_view<const T, Space> q, tensor_view<const T, Space> k)>;

/// What a forward pass on a device hands out; what is not set is not computed.
template <class T, memory_space Space>
struct device_sinks {
  device_row_sink<T, Space> rows{};  ///< at the stage asked for
  /// As they enter the attention, with k (tokens, key heads, d) the keys of the document up to the last of the rows.
  device_row_sink<T, Space> attended{};
  /// The keys of a whole document as they enter the attention, when all its chunks have been handed out.
  std::function<void(std::size_t document, index_t layer, tensor_view<const T, Space> k)> keys{};
  std::function<void(std::size_t document, const token_predictions&)> losses{};
};

/// The forward pass of a decoder on a device: a GPU, or in tests the host through the same steps. T is float, or bf16
/// for a model in bf16. A document goes through a layer a chunk of rows at a time, from the norm before the attention
/// to the sum after the feed-forward, which a causal mask allows: only hidden states, keys and values of the whole
/// document are held.
template <class Device, class T>
class device_decoder {
 public:
  static constexpr memory_space space = Device::memory_type::space;
  using sinks = device_sinks<T, space>;

  /// Checks names and shapes of all weights that layers up to `last_layer` need. The arguments must live longer.
  device_decoder(Device& m, decoder_description description, const checkpoint& model, index_t last_layer,
                 thread_pool& pool, const device_decoder_options& options)
      : device_(&m),
        description_(std::move(description)),
        checkpoint_(&model),
        last_layer_(last_layer),
        pool_(&pool),
        options_(options),
        prefix_(find_prefix(description_, model)),
        feed_(
            m, [this](const layer_visit& v, layer_weights& to) { read(v, to); },
            [this](const layer_visit& v) { return layer_bytes(description_, v.layer, v.only_qk); }, options.resident),
        attention_(m, options.attention_rows, options.attention_keys),
        experts_(m),
        rope_(m),
        local_rope_(m),
        k_(m.memory(), 0),
        v_(m.memory(), 0),
        q_(m.memory(), 0),
        attended_(m.memory(), 0),
        normed_(m.memory(), 0),
        block_(m.memory(), 0),
        active_(m.memory(), 0),
        wide_(m.memory(), 0) {
    const decoder_description& d = description_;
    require(last_layer >= 0 && last_layer < d.n_layers(), "layer ", last_layer, " of a model with ", d.n_layers());
    model.check(prefix_ + d.embedding + ".weight", embedding_shape());
    for (index_t l = 0; l <= last_layer; ++l)
      if (!layer_of(l).skipped) check_layer(d, model, prefix_, l, l == last_layer);
  }

  const decoder_description& description() const { return description_; }

  /// Bytes on the device for documents of `tokens` tokens in all, besides weights: hidden states, keys and values,
  /// rotation tables, and the working memory of a chunk, of the blockwise attention, of experts and of losses.
  static index_t working_bytes(const decoder_description& d, index_t tokens, const device_decoder_options& o) {
    const index_t q = d.query_heads * d.head_dim, k = d.key_heads * d.head_dim, rows = std::min(o.chunk, tokens);
    const index_t tables = (d.local_rope ? 2 : 1) * tokens * d.head_dim * static_cast<index_t>(sizeof(float));
    return static_cast<index_t>(sizeof(T)) *
               (tokens * (d.hidden + 2 * k) + rows * (2 * q + 2 * d.hidden + d.feed_forward)) +
           static_cast<index_t>(sizeof(float)) * rows * product_width(d) + tables +
           attention_type::working_bytes(d.query_heads, d.head_dim, std::min(o.attention_rows, rows),
                                         o.attention_keys) +
           (d.experts ? experts_type::working_bytes(d, rows) : 0) + device_losses_bytes<T>(d, tokens, o.chunk);
  }
  /// Bytes of the weights of layer `l`.
  static index_t layer_bytes(const decoder_description& d, index_t l, bool only_qk = false) {
    index_t bytes = 0;
    for (const auto& shape : layer_shapes(d, l, only_qk)) {
      index_t entries = shape.size() > 1 ? static_cast<index_t>(sizeof(T)) : 4;
      for (const index_t n : shape) entries *= n;
      bytes += entries;
    }
    return bytes;
  }

  /// Checks the weights that losses need.
  void check_output() const {
    for (index_t l = last_layer_; l < description_.n_layers(); ++l)
      if (!layer_of(l).skipped) check_layer(description_, *checkpoint_, prefix_, l, false);
    find_output(description_, *checkpoint_, prefix_);
  }

  /// Runs the layers on some documents, which share a visit of each layer's weights. See `decoder::run`.
  void run(std::span<const token_span> documents, rope_stage stage, const sinks& to) {
    std::vector<pass> passes;
    index_t longest = 0;
    for (std::size_t i = 0; i < documents.size(); ++i)
      if (!documents[i].empty()) {
        passes.push_back(begin(i, documents[i]));
        longest = std::max(longest, passes.back().tokens);
      }
    if (passes.empty()) return;
    reserve(longest);
    const bool whole = static_cast<bool>(to.losses);
    std::vector<layer_visit> visits;
    for (index_t l = 0; l <= (whole ? description_.n_layers() - 1 : last_layer_); ++l)
      if (!layer_of(l).skipped) visits.push_back({l, !whole && l == last_layer_, layer_of(l).experts});
    feed_.begin(visits);
    for (const layer_visit& visit : visits) {
      const layer_type& weights = feed_.take();
      for (pass& p : passes) run_layer(p, visit, weights, stage, to);
      feed_.done();
    }
    if (!whole) return;
    std::vector<device_states<T>> states;
    for (pass& p : passes) states.push_back({p.ids, p.hidden.data()});
    const auto found = device_losses<T>(*device_, description_, *checkpoint_, prefix_, states, options_.chunk, *pool_);
    for (std::size_t i = 0; i < passes.size(); ++i) to.losses(passes[i].number, found[i]);
  }

 private:
  using layer_type = device_layer<Device, T>;
  using attention_type = blockwise_attention<Device, T>;
  using experts_type = device_experts<Device, T>;
  template <class U>
  using memory_of = buffer<U, typename Device::memory_type>;
  static constexpr bool rounds = std::is_same_v<T, bf16>;

  /// cos and sin on the device.
  struct tables {
    explicit tables(Device& m) : cos(m.memory(), 0), sin(m.memory(), 0) {}
    memory_of<float> cos, sin;
    index_t half = 0, positions = 0;
  };
  /// A document on its way through the layers.
  struct pass {
    std::size_t number;
    token_span ids;
    index_t tokens;
    memory_of<T> hidden;  // (tokens, hidden)
  };

  /// Columns of the widest product of a layer.
  static index_t product_width(const decoder_description& d) {
    const bool gated = d.feed_forward_form != feed_forward_kind::not_gated;
    return std::max({(d.query_heads + 2 * d.key_heads) * d.head_dim, d.hidden, (gated ? 2 : 1) * d.feed_forward});
  }
  const layer_description& layer_of(index_t l) const { return description_.layers[l]; }
  std::vector<index_t> embedding_shape() const {
    const decoder_description& d = description_;
    return {d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary, d.hidden};
  }
  index_t query_width() const { return description_.query_heads * description_.head_dim; }
  index_t key_width() const { return description_.key_heads * description_.head_dim; }

  void read(const layer_visit& v, layer_weights& to) const {
    const weight_reading how{rounds, rounds ? weight_format::bf16_rows : weight_format::f32, device_->staging()};
    read_layer(description_, *checkpoint_, prefix_, v.layer, v.only_qk, how, *pool_, to);
  }
  pass begin(std::size_t number, token_span ids) {
    const decoder_description& d = description_;
    const auto tokens = static_cast<index_t>(ids.size());
    pass p{number, ids, tokens, {device_->memory(), tokens * d.hidden}};
    const std::string name = prefix_ + d.embedding + ".weight";
    const auto shape = embedding_shape();
    const float scale = device_kernels::rounded<T>(static_cast<float>(std::sqrt(static_cast<double>(d.hidden))));
    std::vector<T> rows;
    for (index_t first = 0; first < tokens; first += options_.chunk) {
      const index_t count = std::min(options_.chunk, tokens - first);
      rows.resize(count * d.hidden);
      pool_->for_each(count, [&](index_t r, int) {
        const std::int32_t id = ids[first + r];
        require(id >= 0 && id < d.vocabulary, "token id ", id, " at position ", first + r,
                " is outside the model's vocabulary of ", d.vocabulary);
        std::vector<float> row(d.hidden);
        checkpoint_->read(name, shape, id, 1, rounds, row.data());
        for (index_t c = 0; c < d.hidden; ++c)
          rows[r * d.hidden + c] = device_kernels::to_element<T>(row[c] * (d.scaled_embedding ? scale : 1.0f));
      });
      device_->memory().from_host(p.hidden.data() + first * d.hidden, rows.data(), rows.size() * sizeof(T));
    }
    checkpoint_->forget(name);
    return p;
  }

  void reserve(index_t longest) {
    const decoder_description& d = description_;
    const index_t rows = std::min(options_.chunk, longest);
    capacity_ = std::max(capacity_, longest);
    k_.reserve(capacity_ * key_width());
    v_.reserve(capacity_ * key_width());
    q_.reserve(rows * query_width());
    attended_.reserve(rows * query_width());
    normed_.reserve(rows * d.hidden);
    block_.reserve(rows * d.hidden);
    active_.reserve(rows * d.feed_forward);
    wide_.reserve(rows * product_width(d));
  }

  /// The tables for a document, made anew where its length is part of them or they are too short.
  const tables& tables_for(const layer_description& layer, index_t tokens) {
    tables& t = layer.local_rope ? local_rope_ : rope_;
    const rope_description& rope = description_.rope_of(layer);
    if (rope.dynamic ? t.positions == tokens : t.positions >= tokens) return t;
    const rope_table made = make_rope_table(rope, tokens, rounds && !rope.exact);
    t.cos.set(made.cos);
    t.sin.set(made.sin);
    t.half = made.half;
    t.positions = tokens;
    return t;
  }

  void run_layer(pass& p, const layer_visit& visit, const layer_type& weights, rope_stage stage, const sinks& to) {
    const layer_description& layer = layer_of(visit.layer);
    for (index_t first = 0; first < p.tokens; first += options_.chunk) {
      const index_t rows = std::min(options_.chunk, p.tokens - first);
      const auto turn = turn_of(layer, p.tokens, first);
      const bool pre = stage == rope_stage::pre && to.rows;
      const auto hand_out = [&](const device_row_sink<T, space>& sink, index_t first_key) {
        if (sink) sink(p.number, visit.layer, first, query_view(rows), key_view(first_key, first + rows - first_key));
      };
      project(p, visit, weights, turn, rows, !pre);
      if (pre) {
        hand_out(to.rows, first);
        device_->rows(rows, turn);
      } else {
        hand_out(to.rows, first);
      }
      hand_out(to.attended, 0);
      if (visit.only_qk) continue;
      attend(layer, first, rows);
      finish(p, visit, weights, first, rows);
    }
    if (to.keys) to.keys(p.number, visit.layer, key_view(0, p.tokens));
  }

  tensor_view<const T, space> query_view(index_t rows) const {
    const decoder_description& d = description_;
    return {q_.data(), rows, d.query_heads, d.head_dim, query_width(), d.head_dim};
  }
  tensor_view<const T, space> key_view(index_t first, index_t rows) const {
    const decoder_description& d = description_;
    return {k_.data() + first * d.head_dim, rows, d.key_heads, d.head_dim, d.head_dim, capacity_ * d.head_dim};
  }

  device_kernels::rotate_rows<T> turn_of(const layer_description& layer, index_t tokens, index_t first) {
    const decoder_description& d = description_;
    device_kernels::rotate_rows<T> turn{
        {q_.data(), k_.data(), first, d.query_heads, d.key_heads, d.head_dim, capacity_}};
    if (layer.rope) {
      const rope_description& rope = d.rope_of(layer);
      const tables& t = tables_for(layer, tokens);
      turn.cos = t.cos.data();
      turn.sin = t.sin.data();
      turn.half = t.half;
      turn.interleaved = rope.interleaved;
      turn.exact = rope.exact;
    }
    if (d.growth) {
      turn.growth = static_cast<float>(d.growth->beta);
      turn.growth_context = d.growth->context;
    }
    return turn;
  }

  device_kernels::norm_parameters norm_of(const typename layer_type::norm& w) const {
    return {w.w.data(), w.b.data(), description_.norm, static_cast<float>(description_.norm_eps)};
  }
  device_kernels::norm_parameters norm_of(const std::string& name, const typename layer_type::norm& w) const {
    return name.empty() ? device_kernels::norm_parameters{} : norm_of(w);
  }

  /// y = x w^T with `out` rows of w, then use(y): in T, or in f32 where a bias is added before it is rounded.
  template <class Use>
  void linear(const typename layer_type::linear_map& map, bool biased, index_t rows, index_t out, index_t in,
              const T* x, const Use& use) {
    const product_shape shape{rows, out, in, {in, 0}, {in, 0}, {out, 0}};
    if (biased || !rounds) {
      device_->multiply(shape, x, map.w.data(), wide_.data());
      use(static_cast<const float*>(wide_.data()), biased ? map.b.data() : nullptr);
    } else {
      T* const y = reinterpret_cast<T*>(wide_.data());
      device_->multiply(shape, x, map.w.data(), y);
      use(static_cast<const T*>(y), static_cast<const float*>(nullptr));
    }
  }

  void project(const pass& p, const layer_visit& visit, const layer_type& weights,
               const device_kernels::rotate_rows<T>& turn, index_t rows, bool rotates) {
    const decoder_description& d = description_;
    const index_t width = query_width() + (visit.only_qk ? 1 : 2) * key_width();
    const T* const states = p.hidden.data() + turn.at.first * d.hidden;
    const T* x = states;
    if (!d.names.attention_norm.empty()) {
      device_->rows(rows,
                    device_kernels::norm_rows<T>{states, normed_.data(), d.hidden, norm_of(weights.attention_norm)});
      x = normed_.data();
    }
    const device_kernels::norm_parameters q_norm{weights.q_norm.data(), nullptr, d.norm,
                                                 static_cast<float>(d.norm_eps)},
        k_norm{weights.k_norm.data(), nullptr, d.norm, static_cast<float>(d.norm_eps)};
    T* const values = visit.only_qk ? nullptr : v_.data();
    linear(weights.qkv, d.qkv_bias, rows, width, d.hidden, x, [&]<class In>(const In* wide, const float* bias) {
      device_->rows(rows, device_kernels::finish_projection<In, T>{wide, width, bias, values, d.qk, q_norm, k_norm,
                                                                   rotates, turn});
    });
  }

  void attend(const layer_description& layer, index_t first, index_t rows) {
    const decoder_description& d = description_;
    const attention_call<T> call{q_.data(),
                                 k_.data(),
                                 v_.data(),
                                 attended_.data(),
                                 rows,
                                 first,
                                 d.query_heads,
                                 d.key_heads,
                                 d.head_dim,
                                 capacity_,
                                 std::min(layer.window.value_or(capacity_), capacity_),
                                 d.score_scale.value_or(1 / std::sqrt(static_cast<double>(d.head_dim)))};
    if constexpr (requires { device_->attend(call); })
      if (device_->attend(call)) return;
    attention_(call);
  }

  /// From the attention to the end of the layer.
  void finish(pass& p, const layer_visit& visit, const layer_type& weights, index_t first, index_t rows) {
    const decoder_description& d = description_;
    T* const states = p.hidden.data() + first * d.hidden;
    const bool norms = !d.names.feed_forward_norm.empty(), parallel = d.parallel_residual;
    const T* x = norms ? normed_.data() : states;
    if (parallel && norms)
      device_->rows(rows,
                    device_kernels::norm_rows<T>{states, normed_.data(), d.hidden, norm_of(weights.feed_forward_norm)});
    linear(weights.output, d.output_bias, rows, d.hidden, query_width(), attended_.data(),
           [&]<class In>(const In* wide, const float* bias) {
             device_->rows(
                 rows, device_kernels::finish_block<In, T>{
                           wide, d.hidden, bias, norm_of(d.names.attention_out_norm, weights.attention_out_norm),
                           nullptr, !parallel, parallel ? block_.data() : states,
                           norms && !parallel ? norm_of(weights.feed_forward_norm) : device_kernels::norm_parameters{},
                           normed_.data()});
           });
    const auto close = [&]<class In>(const In* wide, const float* bias) {
      device_->rows(rows, device_kernels::finish_block<In, T>{
                              wide,
                              d.hidden,
                              bias,
                              norm_of(d.names.feed_forward_out_norm, weights.feed_forward_out_norm),
                              parallel ? block_.data() : nullptr,
                              true,
                              states,
                              {},
                              nullptr});
    };
    if (visit.experts) return close(experts_(weights, d, rows, x), static_cast<const float*>(nullptr));
    const bool gated = d.feed_forward_form != feed_forward_kind::not_gated;
    linear(weights.feed_forward.up, d.feed_forward_bias, rows, (gated ? 2 : 1) * d.feed_forward, d.hidden, x,
           [&]<class In>(const In* wide, const float* bias) {
             device_->rows(
                 rows, device_kernels::activate_rows<In, T>{wide, d.feed_forward, bias, d.act, gated, active_.data()});
           });
    linear(weights.feed_forward.down, d.feed_forward_bias, rows, d.hidden, d.feed_forward, active_.data(), close);
  }

  Device* device_;
  decoder_description description_;
  const checkpoint* checkpoint_;
  index_t last_layer_;
  thread_pool* pool_;
  device_decoder_options options_;
  std::string prefix_;
  weight_feed<Device, T> feed_;
  attention_type attention_;
  experts_type experts_;
  tables rope_, local_rope_;
  index_t capacity_ = 0;                  // tokens of the longest document so far
  memory_of<T> k_, v_;                    // (key heads, capacity, d)
  memory_of<T> q_, attended_;             // (chunk, query heads, d)
  memory_of<T> normed_, block_, active_;  // (chunk, hidden), (chunk, hidden), (chunk, feed-forward)
  memory_of<float> wide_;                 // what products give
};

}  // namespace qkgeom
