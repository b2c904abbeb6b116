// SPDX-License-Identifier: MIT
#include "capture/decoder.hpp"

#include <algorithm>

#include "capture/blas.hpp"
#include "capture/row_ops.hpp"

namespace qkgeom {
namespace {

// Rows of a document that go through the linear maps together. Fixed, because the bits of a product depend on its
// shape.
constexpr index_t tile_rows = 256;

index_t tiles_of(index_t tokens) { return (tokens + tile_rows - 1) / tile_rows; }

std::size_t n(index_t i) { return static_cast<std::size_t>(i); }

}  // namespace

/// A tensor of the checkpoint and where it goes: `rows` of it from row `at` of a wider matrix.
struct decoder::tensor_spec {
  std::string name;
  std::vector<index_t> shape;
  std::vector<float>* to;
  index_t at = 0;
};

decoder::decoder(decoder_description description, const checkpoint& model, compute_type type, index_t last_layer,
                 thread_pool& pool, attention_kernel kernel)
    : description_(std::move(description)),
      checkpoint_(&model),
      type_(type),
      last_layer_(last_layer),
      pool_(&pool),
      kernel_(kernel),
      scratches_(n(pool.size())) {
  require(last_layer >= 0 && last_layer < description_.n_layers(), "layer ", last_layer, " of a model with ",
          description_.n_layers());
  use_one_blas_thread();
  checkpoint_->check(description_.prefix + "embed_tokens.weight", {description_.vocabulary, description_.hidden});
  for (index_t l = 0; l <= last_layer; ++l)
    for (const tensor_spec& t : tensors(l, l == last_layer, &weights_)) checkpoint_->check(t.name, t.shape);
}

std::vector<decoder::tensor_spec> decoder::tensors(index_t layer, bool only_qk, layer_weights* to) const {
  const decoder_description& d = description_;
  const std::string p = d.prefix + "layers." + std::to_string(layer) + ".";
  const index_t q = d.query_heads * d.head_dim, k = d.key_heads * d.head_dim;
  std::vector<tensor_spec> list;
  const auto linear = [&](const std::string& name, index_t out, index_t in, bool bias, auto* w, auto* b, index_t at) {
    list.push_back({p + name + ".weight", {out, in}, w, at});
    if (bias) list.push_back({p + name + ".bias", {out}, b, at});
  };
  list.push_back({p + "input_layernorm.weight", {d.hidden}, &to->attention_norm});
  linear("self_attn.q_proj", q, d.hidden, d.qkv_bias, &to->qkv, &to->qkv_bias, 0);
  linear("self_attn.k_proj", k, d.hidden, d.qkv_bias, &to->qkv, &to->qkv_bias, q);
  if (only_qk) return list;
  linear("self_attn.v_proj", k, d.hidden, d.qkv_bias, &to->qkv, &to->qkv_bias, q + k);
  linear("self_attn.o_proj", d.hidden, q, d.output_bias, &to->output, &to->output_bias, 0);
  list.push_back({p + "post_attention_layernorm.weight", {d.hidden}, &to->feed_forward_norm});
  linear("mlp.gate_proj", d.feed_forward, d.hidden, d.feed_forward_bias, &to->gate_up, &to->gate_up_bias, 0);
  linear("mlp.up_proj", d.feed_forward, d.hidden, d.feed_forward_bias, &to->gate_up, &to->gate_up_bias, d.feed_forward);
  linear("mlp.down_proj", d.hidden, d.feed_forward, d.feed_forward_bias, &to->down, &to->down_bias, 0);
  return list;
}

void decoder::load(index_t layer, bool only_qk) {
  for (const tensor_spec& t : tensors(layer, only_qk, &weights_)) {
    const index_t width = t.shape.size() > 1 ? t.shape[1] : 1;
    if (t.to->size() < n((t.at + t.shape[0]) * width)) t.to->resize(n((t.at + t.shape[0]) * width));
    checkpoint_->read(t.name, t.shape, 0, t.shape[0], rounds(), t.to->data() + t.at * width);
  }
}

void decoder::embed(std::span<const std::int32_t> ids) {
  const std::string name = description_.prefix + "embed_tokens.weight";
  const index_t width = description_.hidden;
  hidden_.resize(ids.size() * n(width));
  for (std::size_t t = 0; t < ids.size(); ++t) {
    require(ids[t] >= 0 && ids[t] < description_.vocabulary, "token id ", ids[t], " at position ", t,
            " is outside the model's vocabulary of ", description_.vocabulary);
    checkpoint_->read(name, {description_.vocabulary, width}, ids[t], 1, rounds(), hidden_.data() + t * n(width));
  }
}

void decoder::project(index_t tile, index_t tokens, bool only_qk, scratch& s) {
  const decoder_description& d = description_;
  const index_t first = tile * tile_rows, rows = std::min(tile_rows, tokens - first);
  const index_t q = d.query_heads * d.head_dim, k = d.key_heads * d.head_dim, width = q + (only_qk ? 1 : 2) * k;
  s.x.resize(n(tile_rows * d.hidden));
  s.wide.resize(n(tile_rows * width));
  for (index_t r = 0; r < rows; ++r)
    rms_norm({hidden_.data() + (first + r) * d.hidden, n(d.hidden)}, weights_.attention_norm,
             static_cast<float>(d.norm_eps), rounds(), s.x.data() + r * d.hidden);
  multiply_transposed(rows, width, d.hidden, s.x.data(), d.hidden, weights_.qkv.data(), s.wide.data(), width);
  const auto keys = k_.view(), values = v_.view();
  for (index_t r = 0; r < rows; ++r) {
    float* row = s.wide.data() + r * width;
    if (d.qkv_bias)
      add_into({row, n(width)}, weights_.qkv_bias, rounds());
    else if (rounds())
      round_row({row, n(width)});
    std::copy_n(row, q, q_.data() + (first + r) * q);
    for (index_t h = 0; h < d.key_heads; ++h) {
      std::copy_n(row + q + h * d.head_dim, d.head_dim, keys.head(h).row(first + r));
      if (!only_qk) std::copy_n(row + q + k + h * d.head_dim, d.head_dim, values.head(h).row(first + r));
    }
  }
}

void decoder::rotate(index_t tile, index_t tokens) {
  const decoder_description& d = description_;
  const auto keys = k_.view();
  for (index_t t = tile * tile_rows; t < std::min((tile + 1) * tile_rows, tokens); ++t) {
    const float *cos = rope_.cos.data() + t * rope_.half, *sin = rope_.sin.data() + t * rope_.half;
    for (index_t h = 0; h < d.query_heads; ++h)
      rotate_pairs(q_.data() + (t * d.query_heads + h) * d.head_dim, cos, sin, rope_.half, rounds());
    for (index_t h = 0; h < d.key_heads; ++h) rotate_pairs(keys.head(h).row(t), cos, sin, rope_.half, rounds());
  }
}

void decoder::finish_layer(index_t tile, index_t tokens, scratch& s) {
  const decoder_description& d = description_;
  const index_t first = tile * tile_rows, rows = std::min(tile_rows, tokens - first);
  const index_t q = d.query_heads * d.head_dim, f = d.feed_forward;
  s.x.resize(n(tile_rows * d.hidden));
  s.y.resize(n(tile_rows * d.hidden));
  s.wide.resize(n(tile_rows * 2 * f));
  const auto residual = [&](index_t r) { return std::span(hidden_.data() + (first + r) * d.hidden, n(d.hidden)); };
  // Adds the rows of s.y, and their bias, to the residual stream.
  const auto add_rows = [&](bool bias, const std::vector<float>& b) {
    for (index_t r = 0; r < rows; ++r) {
      const std::span<float> y(s.y.data() + r * d.hidden, n(d.hidden));
      if (bias)
        add_into(y, b, rounds());
      else if (rounds())
        round_row(y);
      add_into(residual(r), y, rounds());
    }
  };
  multiply_transposed(rows, d.hidden, q, q_.data() + first * q, q, weights_.output.data(), s.y.data(), d.hidden);
  add_rows(d.output_bias, weights_.output_bias);

  for (index_t r = 0; r < rows; ++r)
    rms_norm(residual(r), weights_.feed_forward_norm, static_cast<float>(d.norm_eps), rounds(),
             s.x.data() + r * d.hidden);
  multiply_transposed(rows, 2 * f, d.hidden, s.x.data(), d.hidden, weights_.gate_up.data(), s.wide.data(), 2 * f);
  for (index_t r = 0; r < rows; ++r) {
    const std::span<float> row(s.wide.data() + r * 2 * f, n(2 * f));
    if (d.feed_forward_bias)
      add_into(row, weights_.gate_up_bias, rounds());
    else if (rounds())
      round_row(row);
    gate_into(row.first(n(f)), row.last(n(f)), rounds());
  }
  multiply_transposed(rows, d.hidden, f, s.wide.data(), 2 * f, weights_.down.data(), s.y.data(), d.hidden);
  add_rows(d.feed_forward_bias, weights_.down_bias);
}

void decoder::run(std::span<const std::int32_t> ids, rope_stage stage, const layer_sink& sink) {
  const decoder_description& d = description_;
  const auto tokens = static_cast<index_t>(ids.size());
  if (tokens == 0) return;
  if (static_cast<index_t>(rope_.cos.size()) < tokens * (d.rope.rotary_dim / 2))
    rope_ = make_rope_table(d.rope, tokens, rounds());
  embed(ids);
  q_.resize(n(tokens * d.query_heads * d.head_dim));
  k_.reshape(tokens, d.key_heads, d.head_dim);
  v_.reshape(tokens, d.key_heads, d.head_dim);
  const auto q = packed_tensor(q_.data(), tokens, d.query_heads, d.head_dim);
  const auto in_tiles = [&](auto&& f) {
    pool_->for_each(tiles_of(tokens), [&](index_t tile, int thread) { f(tile, scratches_[n(thread)]); });
  };
  for (index_t l = 0; l <= last_layer_; ++l) {
    const layer_description& layer = d.layers[n(l)];
    const bool last = l == last_layer_;
    load(l, last);
    in_tiles([&](index_t tile, scratch& s) { project(tile, tokens, last, s); });
    if (stage == rope_stage::pre) sink(l, q, k_.view());
    if (layer.rope) in_tiles([&](index_t tile, scratch&) { rotate(tile, tokens); });
    if (stage == rope_stage::post) sink(l, q, k_.view());
    if (last) break;
    causal_attention(*pool_, q, k_, v_, d.key_heads, {.window = layer.window, .to_bf16 = rounds(), .kernel = kernel_});
    in_tiles([&](index_t tile, scratch& s) { finish_layer(tile, tokens, s); });
  }
}

}  // namespace qkgeom
