// SPDX-License-Identifier: MIT
#include "capture/decoder.hpp"

#include <algorithm>
#include <cmath>

#include "capture/blas.hpp"
#include "capture/losses.hpp"
#include "capture/row_ops.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {
namespace {

// Rows of a document that go through the linear maps together. Fixed, because the bits of a product depend on its
// shape.
constexpr index_t tile_rows = 256;

index_t tiles_of(index_t tokens) { return (tokens + tile_rows - 1) / tile_rows; }

std::size_t n(index_t i) { return static_cast<std::size_t>(i); }

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
      scratches_(n(pool.size())) {
  const decoder_description& d = description_;
  require(last_layer >= 0 && last_layer < d.n_layers(), "layer ", last_layer, " of a model with ", d.n_layers());
  use_one_blas_thread();
  prefix_ = find_prefix(d, model);
  model.check(prefix_ + d.embedding + ".weight", {d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary, d.hidden});
  for (index_t l = 0; l <= last_layer; ++l)
    if (!d.layers[n(l)].skipped) check_layer(d, model, prefix_, l, l == last_layer);
}

void decoder::embed(std::span<const std::int32_t> ids) {
  const decoder_description& d = description_;
  const std::vector<index_t> shape{d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary, d.hidden};
  const float scale = rounded_if(static_cast<float>(std::sqrt(static_cast<double>(d.hidden))), rounds());
  hidden_.resize(ids.size() * n(d.hidden));
  for (std::size_t t = 0; t < ids.size(); ++t) {
    require(ids[t] >= 0 && ids[t] < d.vocabulary, "token id ", ids[t], " at position ", t,
            " is outside the model's vocabulary of ", d.vocabulary);
    const auto row = state(static_cast<index_t>(t));
    checkpoint_->read(prefix_ + d.embedding + ".weight", shape, ids[t], 1, rounds(), row.data());
    if (d.scaled_embedding) scale_row(row, scale, rounds());
  }
}

void decoder::make_tables(index_t tokens) {
  const auto make = [&](const rope_description& rope, rope_table& table) {
    // Tables grow with the longest document, except where a document's length is part of the table.
    if (rope.dynamic || static_cast<index_t>(table.cos.size()) < tokens * (rope.rotary_dim / 2))
      table = make_rope_table(rope, tokens, rounds() && !rope.exact);
  };
  make(description_.rope, rope_);
  if (description_.local_rope) make(*description_.local_rope, local_rope_);
}

std::span<float> decoder::state(index_t token) {
  return {hidden_.data() + token * description_.hidden, n(description_.hidden)};
}

/// The hidden states of `rows` tokens after a norm, or as they are when the family has no such norm.
const float* decoder::normed(const std::string& name, const norm_weights& w, index_t first, index_t rows,
                             std::vector<float>& to) {
  if (name.empty()) return state(first).data();
  const decoder_description& d = description_;
  to.resize(n(tile_rows * d.hidden));
  for (index_t r = 0; r < rows; ++r)
    normalise(d.norm, state(first + r), w.w, w.b, static_cast<float>(d.norm_eps), rounds(), to.data() + r * d.hidden);
  return to.data();
}

/// Norms the output of attention or feed-forward in place, when the family does.
void decoder::norm_out(const std::string& name, const norm_weights& w, index_t rows, float* y) {
  if (name.empty()) return;
  const decoder_description& d = description_;
  for (index_t r = 0; r < rows; ++r) {
    float* const row = y + r * d.hidden;
    normalise(d.norm, {row, n(d.hidden)}, w.w, w.b, static_cast<float>(d.norm_eps), rounds(), row);
  }
}

void decoder::project(index_t tile, index_t tokens, bool only_qk, scratch& s) {
  const decoder_description& d = description_;
  const index_t first = tile * tile_rows, rows = std::min(tile_rows, tokens - first);
  const index_t q = d.query_heads * d.head_dim, k = d.key_heads * d.head_dim, width = q + (only_qk ? 1 : 2) * k;
  s.wide.resize(n(tile_rows * width));
  const float* x = normed(d.names.attention_norm, weights_.attention_norm, first, rows, s.x);
  multiply_transposed(rows, width, d.hidden, x, d.hidden, weights_.qkv.w.data(), s.wide.data(), width);
  const auto keys = k_.view(), values = v_.view();
  for (index_t r = 0; r < rows; ++r) {
    float* row = s.wide.data() + r * width;
    if (d.qkv_bias)
      add_into({row, n(width)}, weights_.qkv.b, rounds());
    else if (rounds())
      round_row({row, n(width)});
    if (d.qk != qk_norm::none) norm_qk(row);
    std::copy_n(row, q, q_.data() + (first + r) * q);
    for (index_t h = 0; h < d.key_heads; ++h) {
      std::copy_n(row + q + h * d.head_dim, d.head_dim, keys.head(h).row(first + r));
      if (!only_qk) std::copy_n(row + q + k + h * d.head_dim, d.head_dim, values.head(h).row(first + r));
    }
  }
}

/// Norms the queries and keys of one token.
void decoder::norm_qk(float* row) {
  const decoder_description& d = description_;
  const auto norm = [&](float* x, index_t size, const std::vector<float>& w) {
    normalise(d.norm, {x, n(size)}, w, {}, static_cast<float>(d.norm_eps), rounds(), x);
  };
  const bool each = d.qk == qk_norm::each_head;
  const index_t q_size = each ? d.head_dim : d.query_heads * d.head_dim;
  const index_t k_size = each ? d.head_dim : d.key_heads * d.head_dim;
  const index_t q = d.query_heads * d.head_dim, k = d.key_heads * d.head_dim;
  for (index_t at = 0; at < q; at += q_size) norm(row + at, q_size, weights_.q_norm);
  for (index_t at = 0; at < k; at += k_size) norm(row + q + at, k_size, weights_.k_norm);
}

void decoder::rotate(index_t tile, index_t tokens, const layer_description& layer) {
  const decoder_description& d = description_;
  const rope_description& rope = d.rope_of(layer);
  const rope_table& table = layer.local_rope ? local_rope_ : rope_;
  const rotation_style style{rope.interleaved, rounds() && !rope.exact, rounds()};
  const auto keys = k_.view();
  for (index_t t = tile * tile_rows; t < std::min((tile + 1) * tile_rows, tokens); ++t) {
    const float *cos = table.cos.data() + t * table.half, *sin = table.sin.data() + t * table.half;
    for (index_t h = 0; h < d.query_heads; ++h)
      rotate_pairs(q_.data() + (t * d.query_heads + h) * d.head_dim, cos, sin, table.half, style);
    for (index_t h = 0; h < d.key_heads; ++h) rotate_pairs(keys.head(h).row(t), cos, sin, table.half, style);
  }
}

void decoder::grow_queries(index_t tile, index_t tokens) {
  const decoder_description& d = description_;
  const index_t width = d.query_heads * d.head_dim;
  for (index_t t = tile * tile_rows; t < std::min((tile + 1) * tile_rows, tokens); ++t) {
    const auto times = static_cast<float>(t / d.growth->context);
    const float factor = 1.0f + static_cast<float>(d.growth->beta) * std::log(1.0f + times);
    scale_row({q_.data() + t * width, n(width)}, rounded_if(factor, rounds()), rounds());
  }
}

void decoder::finish_layer(index_t tile, index_t tokens, const layer_description& layer, scratch& s) {
  const decoder_description& d = description_;
  const index_t first = tile * tile_rows, rows = std::min(tile_rows, tokens - first);
  const index_t q = d.query_heads * d.head_dim;
  s.y.resize(n(tile_rows * d.hidden));
  s.z.resize(n(tile_rows * d.hidden));
  const auto row_of = [&](std::vector<float>& of, index_t r) {
    return std::span<float>(of.data() + r * d.hidden, n(d.hidden));
  };
  multiply_transposed(rows, d.hidden, q, q_.data() + first * q, q, weights_.output.w.data(), s.y.data(), d.hidden);
  for (index_t r = 0; r < rows; ++r)
    if (d.output_bias)
      add_into(row_of(s.y, r), weights_.output.b, rounds());
    else if (rounds())
      round_row(row_of(s.y, r));
  norm_out(d.names.attention_out_norm, weights_.attention_out_norm, rows, s.y.data());
  if (!d.parallel_residual)
    for (index_t r = 0; r < rows; ++r) add_into(state(first + r), row_of(s.y, r), rounds());

  const float* x = normed(d.names.feed_forward_norm, weights_.feed_forward_norm, first, rows, s.x);
  if (layer.experts)
    mixture_of_experts(d, weights_, rows, x, rounds(), s.z.data(), s.feed_forward);
  else
    feed_forward(d, weights_.feed_forward, d.feed_forward, rows, x, rounds(), s.z.data(), s.feed_forward);
  norm_out(d.names.feed_forward_out_norm, weights_.feed_forward_out_norm, rows, s.z.data());
  for (index_t r = 0; r < rows; ++r) {
    if (d.parallel_residual) add_into(row_of(s.z, r), row_of(s.y, r), rounds());
    add_into(state(first + r), row_of(s.z, r), rounds());
  }
}

void decoder::check_output() const {
  for (index_t l = last_layer_; l < description_.n_layers(); ++l)
    if (!description_.layers[n(l)].skipped) check_layer(description_, *checkpoint_, prefix_, l, false);
  find_output(description_, *checkpoint_, prefix_);
}

void decoder::run(std::span<const std::int32_t> ids, rope_stage stage, const decoder_sinks& sinks) {
  const decoder_description& d = description_;
  const auto tokens = static_cast<index_t>(ids.size());
  if (tokens == 0) return;
  make_tables(tokens);
  embed(ids);
  q_.resize(n(tokens * d.query_heads * d.head_dim));
  k_.reshape(tokens, d.key_heads, d.head_dim);
  v_.reshape(tokens, d.key_heads, d.head_dim);
  const auto q = packed_tensor(q_.data(), tokens, d.query_heads, d.head_dim);
  const auto in_tiles = [&](auto&& f) {
    pool_->for_each(tiles_of(tokens), [&](index_t tile, int thread) { f(tile, scratches_[n(thread)]); });
  };
  const bool whole = static_cast<bool>(sinks.losses);
  for (index_t l = 0; l <= (whole ? d.n_layers() - 1 : last_layer_); ++l) {
    const layer_description& layer = d.layers[n(l)];
    const bool last = !whole && l == last_layer_;
    if (layer.skipped) continue;
    read_layer(d, *checkpoint_, prefix_, l, last, rounds(), weights_);
    in_tiles([&](index_t tile, scratch& s) { project(tile, tokens, last, s); });
    if (stage == rope_stage::pre && sinks.rows) sinks.rows(l, q, k_.view());
    if (layer.rope) in_tiles([&](index_t tile, scratch&) { rotate(tile, tokens, layer); });
    if (d.growth) in_tiles([&](index_t tile, scratch&) { grow_queries(tile, tokens); });
    if (stage == rope_stage::post && sinks.rows) sinks.rows(l, q, k_.view());
    if (sinks.attended) sinks.attended(l, q, k_.view());
    if (last) break;
    causal_attention(*pool_, q, k_, v_, d.key_heads,
                     {.window = layer.window, .to_bf16 = rounds(), .scale = d.score_scale, .kernel = kernel_});
    in_tiles([&](index_t tile, scratch& s) { finish_layer(tile, tokens, layer, s); });
  }
  if (whole) sinks.losses(token_losses(d, *checkpoint_, prefix_, ids, hidden_, rounds(), *pool_));
}

}  // namespace qkgeom
