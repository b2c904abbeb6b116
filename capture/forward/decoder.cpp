// SPDX-License-Identifier: MIT
#include "capture/forward/decoder.hpp"

#include <algorithm>
#include <cmath>

#include "capture/forward/losses.hpp"
#include "capture/forward/products/amx.hpp"
#include "capture/forward/products/blas.hpp"
#include "capture/forward/row_ops.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {
namespace {

// Rows of a document that go through the linear maps together. Fixed, because the bits of a product depend on its
// shape.
constexpr index_t tile_rows = 256;

float rounded_if(float x, bool to_bf16) { return to_bf16 ? static_cast<float>(bf16::round(x)) : x; }

}  // namespace

decoder::decoder(decoder_description description, const checkpoint& model, compute_type type, index_t last_layer,
                 thread_pool& pool, attention_kernel kernel)
    : description_(std::move(description)),
      checkpoint_(&model),
      type_(type),
      last_layer_(last_layer),
      pool_(&pool),
      kernel_(kernel),
      scratches_(static_cast<std::size_t>(pool.size())) {
  const decoder_description& d = description_;
  require(last_layer >= 0 && last_layer < d.n_layers(), "layer ", last_layer, " of a model with ", d.n_layers());
  use_one_blas_thread();
  prefix_ = find_prefix(d, model);
  model.check(prefix_ + d.embedding + ".weight", {d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary, d.hidden});
  for (index_t l = 0; l <= last_layer; ++l)
    if (!d.layers[l].skipped) check_layer(d, model, prefix_, l, l == last_layer);
}

decoder::document_pass decoder::begin(std::size_t number, token_span ids) const {
  const decoder_description& d = description_;
  document_pass p{number, ids, static_cast<index_t>(ids.size()), {}, {}, {}, {}, {}, {}, nullptr, nullptr};
  p.hidden.resize(p.tokens * d.hidden);
  p.q.resize(p.tokens * d.query_heads * d.head_dim);
  p.k.reshape(p.tokens, d.key_heads, d.head_dim);
  p.v.reshape(p.tokens, d.key_heads, d.head_dim);
  embed(p);
  return p;
}

void decoder::embed(document_pass& p) const {
  const decoder_description& d = description_;
  const std::string name = prefix_ + d.embedding + ".weight";
  const std::vector<index_t> shape{d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary, d.hidden};
  const float scale = rounded_if(static_cast<float>(std::sqrt(static_cast<double>(d.hidden))), rounds());
  for (std::size_t t = 0; t < p.ids.size(); ++t) {
    require(p.ids[t] >= 0 && p.ids[t] < d.vocabulary, "token id ", p.ids[t], " at position ", t,
            " is outside the model's vocabulary of ", d.vocabulary);
    const std::span<float> row(p.hidden.data() + t * static_cast<std::size_t>(d.hidden),
                               static_cast<std::size_t>(d.hidden));
    checkpoint_->read(name, shape, p.ids[t], 1, rounds(), row.data());
    if (d.scaled_embedding) scale_row(row, scale, rounds());
  }
  checkpoint_->forget(name);
}

void decoder::make_tables(std::span<document_pass> documents) {
  index_t longest = 0;
  for (const document_pass& p : documents) longest = std::max(longest, p.tokens);
  const auto make = [&](const rope_description& rope, rope_table& shared, auto own, auto used) {
    const bool to_bf16 = rounds() && !rope.exact;
    if (!rope.dynamic && static_cast<index_t>(shared.cos.size()) < longest * (rope.rotary_dim / 2))
      shared = make_rope_table(rope, longest, to_bf16);
    for (document_pass& p : documents) {
      if (rope.dynamic) p.*own = make_rope_table(rope, p.tokens, to_bf16);
      p.*used = rope.dynamic ? &(p.*own) : &shared;
    }
  };
  make(description_.rope, rope_, &document_pass::own_rope, &document_pass::rope);
  if (description_.local_rope)
    make(*description_.local_rope, local_rope_, &document_pass::own_local_rope, &document_pass::local_rope);
}

/// The hidden states of a tile after a norm, or as they are when the family has no such norm.
const float* decoder::normed(const std::string& name, const norm_weights& w, const row_tile& tile,
                             std::vector<float>& to) const {
  const decoder_description& d = description_;
  const float* const states = tile.document->hidden.data() + tile.first * d.hidden;
  if (name.empty()) return states;
  to.resize(tile_rows * d.hidden);
  for (index_t r = 0; r < tile.rows; ++r)
    normalise(d.norm, {states + r * d.hidden, static_cast<std::size_t>(d.hidden)}, w.w, w.b,
              static_cast<float>(d.norm_eps), rounds(), to.data() + r * d.hidden);
  return to.data();
}

/// Norms the output of attention or feed-forward in place, when the family does.
void decoder::norm_out(const std::string& name, const norm_weights& w, index_t rows, float* y) const {
  if (name.empty()) return;
  const decoder_description& d = description_;
  for (index_t r = 0; r < rows; ++r) {
    float* const row = y + r * d.hidden;
    normalise(d.norm, {row, static_cast<std::size_t>(d.hidden)}, w.w, w.b, static_cast<float>(d.norm_eps), rounds(),
              row);
  }
}

void decoder::project(const row_tile& tile, bool only_qk, scratch& s) const {
  const decoder_description& d = description_;
  const index_t q = d.query_heads * d.head_dim, k = d.key_heads * d.head_dim, width = q + (only_qk ? 1 : 2) * k;
  s.wide.resize(tile_rows * width);
  const float* x = normed(d.names.attention_norm, weights_.attention_norm, tile, s.x);
  weights_.qkv.w.multiply(tile.rows, width, x, d.hidden, s.wide.data(), width, s.feed_forward.product);
  const auto keys = tile.document->k.view(), values = tile.document->v.view();
  for (index_t r = 0; r < tile.rows; ++r) {
    float* row = s.wide.data() + r * width;
    const index_t token = tile.first + r;
    if (d.qkv_bias)
      add_into({row, static_cast<std::size_t>(width)}, weights_.qkv.b, rounds());
    else if (rounds())
      round_row({row, static_cast<std::size_t>(width)});
    if (d.qk != qk_norm::none) norm_qk(row);
    std::copy_n(row, q, tile.document->q.data() + token * q);
    for (index_t h = 0; h < d.key_heads; ++h) {
      std::copy_n(row + q + h * d.head_dim, d.head_dim, keys.head(h).row(token));
      if (!only_qk) std::copy_n(row + q + k + h * d.head_dim, d.head_dim, values.head(h).row(token));
    }
  }
}

/// Norms the queries and keys of one token.
void decoder::norm_qk(float* row) const {
  const decoder_description& d = description_;
  const auto norm = [&](float* x, index_t size, const std::vector<float>& w) {
    normalise(d.norm, {x, static_cast<std::size_t>(size)}, w, {}, static_cast<float>(d.norm_eps), rounds(), x);
  };
  const bool each = d.qk == qk_norm::each_head;
  const index_t q_size = each ? d.head_dim : d.query_heads * d.head_dim;
  const index_t k_size = each ? d.head_dim : d.key_heads * d.head_dim;
  const index_t q = d.query_heads * d.head_dim, k = d.key_heads * d.head_dim;
  for (index_t at = 0; at < q; at += q_size) norm(row + at, q_size, weights_.q_norm);
  for (index_t at = 0; at < k; at += k_size) norm(row + q + at, k_size, weights_.k_norm);
}

void decoder::rotate(const row_tile& tile, const layer_description& layer) const {
  const decoder_description& d = description_;
  const rope_description& rope = d.rope_of(layer);
  const rope_table& table = layer.local_rope ? *tile.document->local_rope : *tile.document->rope;
  const rotation_style style{rope.interleaved, rounds() && !rope.exact, rounds()};
  const auto keys = tile.document->k.view();
  for (index_t t = tile.first; t < tile.first + tile.rows; ++t) {
    const float *cos = table.cos.data() + t * table.half, *sin = table.sin.data() + t * table.half;
    for (index_t h = 0; h < d.query_heads; ++h)
      rotate_pairs(tile.document->q.data() + (t * d.query_heads + h) * d.head_dim, cos, sin, table.half, style);
    for (index_t h = 0; h < d.key_heads; ++h) rotate_pairs(keys.head(h).row(t), cos, sin, table.half, style);
  }
}

void decoder::grow_queries(const row_tile& tile) const {
  const decoder_description& d = description_;
  const index_t width = d.query_heads * d.head_dim;
  for (index_t t = tile.first; t < tile.first + tile.rows; ++t) {
    const auto times = static_cast<float>(t / d.growth->context);
    const float factor = 1.0f + static_cast<float>(d.growth->beta) * std::log(1.0f + times);
    scale_row({tile.document->q.data() + t * width, static_cast<std::size_t>(width)}, rounded_if(factor, rounds()),
              rounds());
  }
}

/// The attention of a layer with the changes of its heads; its result replaces the queries.
void decoder::attend(document_pass& p, index_t l) const {
  const decoder_description& d = description_;
  const layer_description& layer = d.layers[l];
  const auto q = packed_tensor(p.q.data(), p.tokens, d.query_heads, d.head_dim);
  const attention_options options{
      .window = layer.window, .to_bf16 = rounds(), .scale = d.score_scale, .kernel = kernel_};
  const auto here = [&](const head_change& c) { return c.head.layer == l; };
  if (std::none_of(changes_.begin(), changes_.end(), [&](const auto& c) { return here(c) && !c.key_slope.empty(); })) {
    causal_attention(*pool_, q, p.k, p.v, d.key_heads, options);
  } else {
    // Each query head gets keys and values of its own.
    key_buffer k, v;
    k.reshape(p.tokens, d.query_heads, d.head_dim);
    v.reshape(p.tokens, d.query_heads, d.head_dim);
    const auto from_k = p.k.view(), from_v = p.v.view(), to_k = k.view(), to_v = v.view();
    for (index_t h = 0; h < d.query_heads; ++h) {
      const index_t of = key_head_of(h, d.query_heads, d.key_heads);
      for (index_t t = 0; t < p.tokens; ++t) {
        std::copy_n(from_k.head(of).row(t), d.head_dim, to_k.head(h).row(t));
        std::copy_n(from_v.head(of).row(t), d.head_dim, to_v.head(h).row(t));
      }
    }
    for (const head_change& c : changes_)
      for (index_t t = 0; here(c) && !c.key_slope.empty() && t < p.tokens; ++t) {
        float* const row = to_k.head(c.head.head).row(t);
        for (index_t i = 0; i < d.head_dim; ++i)
          row[i] = rounded_if(
              static_cast<float>(static_cast<double>(row[i]) - c.key_slope[i] * (static_cast<double>(t) - c.centre)),
              rounds());
      }
    causal_attention(*pool_, q, k, v, d.query_heads, options);
  }
  for (const head_change& c : changes_)
    for (index_t t = 0; here(c) && c.ablate && t < p.tokens; ++t)
      std::fill_n(q.head(c.head.head).row(t), d.head_dim, 0.0f);
}

void decoder::finish_layer(const row_tile& tile, const layer_description& layer, scratch& s) const {
  const decoder_description& d = description_;
  const index_t rows = tile.rows, q = d.query_heads * d.head_dim;
  s.y.resize(tile_rows * d.hidden);
  s.z.resize(tile_rows * d.hidden);
  const auto row_of = [&](std::vector<float>& of, index_t r) {
    return std::span<float>(of.data() + r * d.hidden, static_cast<std::size_t>(d.hidden));
  };
  const auto state = [&](index_t r) { return row_of(tile.document->hidden, tile.first + r); };
  weights_.output.w.multiply(rows, d.hidden, tile.document->q.data() + tile.first * q, q, s.y.data(), d.hidden,
                             s.feed_forward.product);
  for (index_t r = 0; r < rows; ++r)
    if (d.output_bias)
      add_into(row_of(s.y, r), weights_.output.b, rounds());
    else if (rounds())
      round_row(row_of(s.y, r));
  norm_out(d.names.attention_out_norm, weights_.attention_out_norm, rows, s.y.data());
  if (!d.parallel_residual)
    for (index_t r = 0; r < rows; ++r) add_into(state(r), row_of(s.y, r), rounds());

  const float* x = normed(d.names.feed_forward_norm, weights_.feed_forward_norm, tile, s.x);
  if (layer.experts)
    mixture_of_experts(d, weights_, rows, x, rounds(), s.z.data(), s.feed_forward);
  else
    feed_forward(d, weights_.feed_forward, d.feed_forward, rows, x, rounds(), s.z.data(), s.feed_forward);
  norm_out(d.names.feed_forward_out_norm, weights_.feed_forward_out_norm, rows, s.z.data());
  for (index_t r = 0; r < rows; ++r) {
    if (d.parallel_residual) add_into(row_of(s.z, r), row_of(s.y, r), rounds());
    add_into(state(r), row_of(s.z, r), rounds());
  }
}

void decoder::hand_out(std::span<document_pass> documents, index_t layer, const batch_sinks::layer_sink& sink) const {
  if (!sink) return;
  for (document_pass& p : documents)
    sink(p.number, layer, packed_tensor(p.q.data(), p.tokens, description_.query_heads, description_.head_dim),
         p.k.view());
}

namespace {

/// Rows of x at some positions, packed into `to`.
tensor_view<const float> rows_at(tensor_view<const float> x, const std::vector<std::int32_t>& positions,
                                 std::vector<float>& to) {
  const auto rows = static_cast<index_t>(positions.size());
  to.resize(rows * x.heads * x.dim);
  for (index_t r = 0; r < rows; ++r)
    for (index_t h = 0; h < x.heads; ++h)
      std::copy_n(x.head(h).row(positions[r]), x.dim, to.data() + (r * x.heads + h) * x.dim);
  return packed_tensor(static_cast<const float*>(to.data()), rows, x.heads, x.dim);
}

}  // namespace

/// What is handed out at the stage asked for: all rows, and those that were chosen.
void decoder::hand_out_rows(std::span<document_pass> documents, index_t layer, const batch_sinks& sinks) {
  hand_out(documents, layer, sinks.rows);
  if (!sinks.chosen) return;
  hand_out(documents, layer, [&](std::size_t i, index_t, tensor_view<const float> q, tensor_view<const float> k) {
    const row_choice choice = sinks.choose(i, layer);
    if (choice.q.empty() && choice.k.empty()) return;
    const auto chosen_q = rows_at(q, choice.q, chosen_q_), chosen_k = rows_at(k, choice.k, chosen_k_);
    sinks.chosen(i, layer, chosen_q, chosen_k);
  });
}

weight_reading decoder::reading() const {
  const bool tiles = rounds() && kernel_ == attention_kernel::best && amx_available();
  return {rounds(), tiles ? weight_format::bf16_tiles : weight_format::f32};
}

void decoder::check_output() const {
  for (index_t l = last_layer_; l < description_.n_layers(); ++l)
    if (!description_.layers[l].skipped) check_layer(description_, *checkpoint_, prefix_, l, false);
  find_output(description_, *checkpoint_, prefix_);
}

void decoder::run(token_span ids, rope_stage stage, const decoder_sinks& sinks) {
  batch_sinks same;
  const auto without_number = [](const layer_sink& sink) -> batch_sinks::layer_sink {
    if (!sink) return {};
    return [&](std::size_t, index_t layer, auto q, auto k) { sink(layer, q, k); };
  };
  same.rows = without_number(sinks.rows);
  same.attended = without_number(sinks.attended);
  if (sinks.losses) same.losses = [&](std::size_t, const token_predictions& found) { sinks.losses(found); };
  run({&ids, 1}, stage, same);
}

void decoder::run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) {
  const decoder_description& d = description_;
  std::vector<document_pass> passes;
  for (std::size_t i = 0; i < documents.size(); ++i)
    if (!documents[i].empty()) passes.push_back(begin(i, documents[i]));
  if (passes.empty()) return;
  make_tables(passes);
  std::vector<row_tile> tiles;
  for (document_pass& p : passes)
    for (index_t t = 0; t < p.tokens; t += tile_rows) tiles.push_back({&p, t, std::min(tile_rows, p.tokens - t)});
  const auto in_tiles = [&](auto&& f) {
    pool_->for_each(static_cast<index_t>(tiles.size()),
                    [&](index_t i, int thread) { f(tiles[i], scratches_[thread]); });
  };
  const bool whole = static_cast<bool>(sinks.losses);
  for (index_t l = 0; l <= (whole ? d.n_layers() - 1 : last_layer_); ++l) {
    const layer_description& layer = d.layers[l];
    const bool last = !whole && l == last_layer_;
    if (layer.skipped) continue;
    read_layer(d, *checkpoint_, prefix_, l, last, reading(), *pool_, weights_);
    in_tiles([&](const row_tile& tile, scratch& s) { project(tile, last, s); });
    if (stage == rope_stage::pre) hand_out_rows(passes, l, sinks);
    if (layer.rope) in_tiles([&](const row_tile& tile, scratch&) { rotate(tile, layer); });
    if (d.growth) in_tiles([&](const row_tile& tile, scratch&) { grow_queries(tile); });
    if (stage == rope_stage::post) hand_out_rows(passes, l, sinks);
    hand_out(passes, l, sinks.attended);
    if (!last) {
      for (document_pass& p : passes) attend(p, l);
      in_tiles([&](const row_tile& tile, scratch& s) { finish_layer(tile, layer, s); });
    }
    for (const document_pass& p : passes)
      if (sinks.passed) sinks.passed(p.number, l);
  }
  if (!whole) return;
  std::vector<token_states> states;
  for (document_pass& p : passes) states.push_back({p.ids, p.hidden});
  const auto losses = token_losses(d, *checkpoint_, prefix_, states, reading(), *pool_);
  for (std::size_t i = 0; i < passes.size(); ++i) sinks.losses(passes[i].number, losses[i]);
}

}  // namespace qkgeom
