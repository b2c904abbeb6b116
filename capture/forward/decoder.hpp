// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/forward/decoder_memory.hpp"
#include "capture/forward/forward_pass.hpp"
#include "capture/forward/layer_steps.hpp"
#include "capture/forward/losses.hpp"
#include "capture/forward/softmax.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "capture/model/head_changes.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

struct decoder_options {
  index_t chunk = 4096;           ///< rows of a document that go through the linear maps together
  index_t attention_rows = 1024;  ///< rows of a block of the blockwise attention
  index_t attention_keys = 2048;
  index_t resident = 0;  ///< bytes of weights that stay on the device; the other layers stream through it
};

/// Receivers of a forward pass on a device. `rows` is called for each layer of a document, chunk after chunk, with q
/// (rows, query heads, d) and k (rows, key heads, d) of the rows from position `first` on, at the stage of the run. The
/// values are on the device and valid during the call.
template <class T, memory_space Space>
struct device_sinks : document_sinks {
  std::function<void(std::size_t document, index_t layer, index_t first, tensor_view<const T, Space> q,
                     tensor_view<const T, Space> k)>
      rows{};
};

/// The forward pass of a decoder on a device: the CPU (cpu_device.hpp), a GPU, or in tests the host in place of a GPU.
/// T is float, or for a model in bf16 bf16 or wide_bf16. Documents that run together share a visit of each layer's
/// weights. The linear maps take a chunk of rows at a time. Where the device has `whole_documents`, all chunks of all
/// documents go side by side from step to step; else a chunk goes through the whole layer before the next does, which a
/// causal mask allows, and only hidden states, keys and values of whole documents are held.
template <class Device, class T>
class decoder {
 public:
  static constexpr memory_space space = Device::memory_type::space;
  using sinks = device_sinks<T, space>;

  /// Checks names and shapes of all weights that layers up to `last_layer` need; without losses layers after the last
  /// attention among these do not run. The arguments must outlive it.
  decoder(Device& m, decoder_description description, const checkpoint& model, index_t last_layer, thread_pool& pool,
          const decoder_options& options)
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
        steps_(m, description_, options.attention_rows, options.attention_keys),
        softmax_(m),
        rope_(m),
        local_rope_(m) {
    const decoder_description& d = description_;
    require(last_layer >= 0 && last_layer < d.n_layers(), "layer ", last_layer, " of a model with ", d.n_layers());
    model.check(prefix_ + d.embedding + ".weight", embedding_shape());
    while (last_layer_ >= 0 && !d.attends(last_layer_)) --last_layer_;
    for (index_t l = 0; l <= last_layer_; ++l)
      if (!layer_of(l).skipped) check_layer(d, model, prefix_, l, l == last_layer_);
    for (int i = 0; i < m.workers(); ++i) workspaces_.emplace_back(m);
  }

  /// Returns the bytes on the device for documents of `tokens` tokens in all, besides weights: hidden states, keys and
  /// values, rotation tables, and the working memory of a chunk, of the blockwise attention, of experts and of losses.
  static index_t working_bytes(const decoder_description& d, index_t tokens, const decoder_options& o) {
    const index_t k = d.widest_keys(), rows = std::min(o.chunk, tokens);
    const index_t tables = (d.local_rope ? 2 : 1) * tokens * d.widest_head() * static_cast<index_t>(sizeof(float));
    return static_cast<index_t>(sizeof(T)) * tokens * (d.hidden + 2 * k) +
           document_rows<Device, T>::bytes(d, rows, tokens) + tables + workspace::working_bytes(d, rows) +
           token_losses_bytes<T>(d, tokens, o.chunk) + sparse_attention<Device, T>::working_bytes(d, tokens, rows) +
           4 * pass::chosen_entries(d, tokens) +
           steps::attention_type::working_bytes(d.query_heads, d.widest_head(), std::min(o.attention_rows, rows),
                                                o.attention_keys);
  }
  static index_t layer_bytes(const decoder_description& d, index_t l, bool only_qk = false) {
    index_t bytes = 0;
    for (const auto& shape : layer_shapes(d, l, only_qk)) {
      index_t entries = shape.size() > 1 ? static_cast<index_t>(sizeof(T)) : 4;
      for (const index_t n : shape) entries *= n;
      bytes += entries;
    }
    return bytes;
  }

  void check_output() const {
    for (index_t l = std::max<index_t>(last_layer_, 0); l < description_.n_layers(); ++l)
      if (!layer_of(l).skipped) check_layer(description_, *checkpoint_, prefix_, l, false);
    find_output(description_, *checkpoint_, prefix_);
  }

  /// Changes heads in later runs, see `forward_pass::change`.
  void change(std::vector<head_change> changes) { changes_ = std::move(changes); }

  /// Runs the layers on some documents: with a sink for losses all layers, else those up to `last_layer`, of which the
  /// last computes queries and keys alone.
  void run(std::span<const token_span> documents, rope_stage stage, const sinks& to) {
    std::vector<pass> passes;
    for (std::size_t i = 0; i < documents.size(); ++i)
      if (!documents[i].empty()) passes.push_back(begin(i, documents[i]));
    if (passes.empty()) return;
    const std::size_t together = Device::whole_documents ? passes.size() : 1;
    const index_t longest = reserve(passes, together);
    const bool whole = static_cast<bool>(to.losses);
    std::vector<layer_visit> visits;
    for (index_t l = 0; l <= (whole ? description_.n_layers() - 1 : last_layer_); ++l)
      if (const layer_description& layer = layer_of(l); !layer.skipped)
        visits.push_back(
            {l, !whole && l == last_layer_, layer.experts, !layer.experts || description_.experts->shared_width > 0});
    feed_.begin(visits);
    for (const layer_visit& visit : visits) {
      const auto& weights = feed_.take();
      const layer_changes<Device> changes(*device_, changes_, description_, visit.layer, longest);
      for (std::size_t i = 0; i < passes.size(); i += together)
        run_layer(std::span(passes).subspan(i, together), visit, weights, changes, stage, to);
      feed_.done();
    }
    if (Device::whole_documents) rows_.clear();
    if (!whole) return;
    std::vector<token_states<T>> states;
    for (pass& p : passes) states.push_back({p.ids, p.hidden.data()});
    const auto found = token_losses<T>(*device_, description_, *checkpoint_, prefix_, states, options_.chunk, *pool_);
    for (std::size_t i = 0; i < passes.size(); ++i) to.losses(passes[i].number, found[i]);
  }

 private:
  using steps = layer_steps<Device, T>;
  using pass = typename steps::pass;
  using chunk = typename steps::chunk;
  using workspace = typename steps::workspace;
  using tables = rotary_tables<Device>;
  static constexpr bool rounds = device_kernels::rounds_to_bf16<T>;

  const layer_description& layer_of(index_t l) const { return description_.layers[l]; }
  std::vector<index_t> embedding_shape() const {
    const decoder_description& d = description_;
    return {d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary, d.hidden};
  }

  void read(const layer_visit& v, layer_weights& to) const {
    read_layer(description_, *checkpoint_, prefix_, v.layer, v.only_qk, device_->reading(rounds), *pool_, to);
  }
  pass begin(std::size_t number, token_span ids) {
    const decoder_description& d = description_;
    const auto tokens = static_cast<index_t>(ids.size());
    pass p{number, ids, tokens, {*device_, tokens * d.hidden}, {*device_, pass::chosen_entries(d, tokens)}};
    const std::string name = prefix_ + d.embedding + ".weight";
    const auto shape = embedding_shape();
    const float scale = d.scaled_embedding
                            ? device_kernels::rounded<T>(static_cast<float>(std::sqrt(static_cast<double>(d.hidden))))
                            : static_cast<float>(d.embedding_scale);
    std::vector<T> rows;
    std::vector<std::vector<float>> row_of(pool_->size(), std::vector<float>(d.hidden));  // by thread
    for (index_t first = 0; first < tokens; first += options_.chunk) {
      const index_t count = std::min(options_.chunk, tokens - first);
      rows.resize(count * d.hidden);
      pool_->for_each(count, [&](index_t r, int thread) {
        const std::int32_t id = ids[first + r];
        require(id >= 0 && id < d.vocabulary, "token id ", id, " at position ", first + r,
                " is outside the model's vocabulary of ", d.vocabulary);
        std::vector<float>& row = row_of[thread];
        checkpoint_->read(name, shape, id, 1, rounds, row.data());
        for (index_t c = 0; c < d.hidden; ++c) rows[r * d.hidden + c] = device_kernels::to_element<T>(row[c] * scale);
      });
      device_->memory().from_host(p.hidden.data() + first * d.hidden, rows.data(), rows.size() * sizeof(T));
    }
    checkpoint_->forget(name);
    return p;
  }

  /// Reserves memory for the rows of documents, of which `together` are in a layer at once, and their rotary tables.
  /// Returns the tokens of the longest.
  index_t reserve(std::vector<pass>& passes, std::size_t together) {
    const decoder_description& d = description_;
    index_t longest = 0;
    for (const pass& p : passes) longest = std::max(longest, p.tokens);
    capacity_ = std::max(capacity_, longest);
    const index_t rows = std::min(options_.chunk, longest);
    while (rows_.size() < together) rows_.emplace_back(*device_);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      pass& p = passes[i];
      p.rows = &rows_[i % together];
      p.rows->reserve(d, Device::whole_documents ? p.tokens : rows, Device::whole_documents ? p.tokens : capacity_);
    }
    for (workspace& w : workspaces_) w.reserve(d, rows);
    make_tables(d.rope, longest, passes, rope_, &pass::own_rope, &pass::rope);
    if (d.local_rope)
      make_tables(*d.local_rope, longest, passes, local_rope_, &pass::own_local_rope, &pass::local_rope);
    return longest;
  }

  void make_tables(const rope_description& rope, index_t longest, std::vector<pass>& passes, tables& shared,
                   std::optional<tables> pass::*own, const tables* pass::*used) {
    if (!rope.by_length() && shared.positions < longest) shared.make(rope, longest, rounds);
    for (pass& p : passes) {
      p.*used = &shared;
      if (!rope.by_length()) continue;
      (p.*own).emplace(*device_).make(rope, p.tokens, rounds);
      p.*used = &*(p.*own);
    }
  }

  /// Runs one layer over documents that are in memory together.
  void run_layer(std::span<pass> documents, const layer_visit& visit, const typename steps::layer_type& weights,
                 const layer_changes<Device>& changes, rope_stage stage, const sinks& to) {
    const layer_description& layer = layer_of(visit.layer);
    const head_shape heads = description_.heads_of(layer);
    index_t longest = 0;
    for (pass& p : documents) {
      longest = std::max(longest, p.tokens);
      p.rows->keys.reserve(Device::whole_documents ? p.tokens : capacity_, heads.key_heads, heads.head_dim);
    }
    const index_t step = Device::whole_documents ? longest : options_.chunk;
    for (index_t begin = 0; begin < longest; begin += step) {
      std::vector<chunk> parts, chunks;  // a document's rows; rows for the linear maps
      for (pass& p : documents) {
        const auto rows_from = [&](index_t first, index_t most) {
          const index_t place = first - begin;
          return chunk{&p,
                       first,
                       std::min(most, p.tokens - first),
                       p.rows->q.data() + place * steps_.query_width(layer),
                       p.rows->attention() + place * steps_.attended_width(layer),
                       place};
        };
        parts.push_back(rows_from(begin, step));
        for (index_t first = begin; first < begin + parts.back().rows; first += options_.chunk)
          chunks.push_back(rows_from(first, options_.chunk));
      }
      const auto each_chunk = [&](const auto& f) {
        device_->each(static_cast<index_t>(chunks.size()),
                      [&](index_t i, int worker) { f(chunks[i], workspaces_[worker]); });
      };
      const bool pre = stage == rope_stage::pre && to.rows && !layer.delta;
      each_chunk([&](const chunk& c, workspace& w) { steps_.project(c, layer, visit.only_qk, weights, !pre, w); });
      if (to.rows && description_.attends(visit.layer))
        for (const chunk& c : parts)
          description_.indexer_rows
              ? to.rows(c.document->number, visit.layer, c.first, steps_.index_query_view(c), steps_.index_key_view(c))
              : to.rows(c.document->number, visit.layer, c.first, steps_.query_view(c, layer),
                        steps_.key_view(*c.document, layer, c.first, c.rows));
      if (pre) each_chunk([&](const chunk& c, workspace&) { steps_.rotate(c, layer, weights); });
      if (to.measured && !layer.delta)
        for (const chunk& c : parts) measure_softmax(c, visit.layer, to);
      if (visit.only_qk) continue;
      for (const chunk& c : parts) steps_.attend(c, layer, weights, changes);
      each_chunk([&](const chunk& c, workspace& w) { steps_.finish(c, layer, weights, w); });
    }
    if (!to.passed || layer.delta) return;
    for (const pass& p : documents) to.passed(p.number, visit.layer);
  }

  /// Measures the softmax of the chosen queries among a document's rows, before the attention replaces them.
  void measure_softmax(const chunk& c, index_t layer, const sinks& to) {
    const std::size_t document = c.document->number;
    const auto what = to.measured(document, layer);
    if (!what) return;
    softmax_(
        c.first, steps_.query_view(c, layer_of(layer)),
        steps_.key_view(*c.document, layer_of(layer), 0, c.first + c.rows), *what,
        [&](index_t first, const std::vector<double>& found) { to.softmax(document, layer, *what, first, found); });
  }

  Device* device_;
  decoder_description description_;
  const checkpoint* checkpoint_;
  index_t last_layer_;
  thread_pool* pool_;
  decoder_options options_;
  std::string prefix_;
  typename device_storage<Device, T>::feed feed_;
  steps steps_;
  sampled_softmax<Device, T> softmax_;
  std::vector<head_change> changes_;
  tables rope_, local_rope_;
  index_t capacity_ = 0;  // tokens of the longest document so far
  std::deque<document_rows<Device, T>> rows_;
  std::deque<workspace> workspaces_;
};

}  // namespace qkgeom
