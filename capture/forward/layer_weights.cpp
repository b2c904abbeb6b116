// SPDX-License-Identifier: MIT
#include "capture/forward/layer_weights.hpp"

#include <algorithm>
#include <string_view>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

/// Rows [first, first + count) of a checkpoint's tensor, and their place: in a matrix or a vector, from `first_row` on.
struct tensor_slice {
  std::string name;
  std::vector<index_t> shape;
  index_t first, count;
  weight_matrix* matrix;
  std::vector<float>* vector;
  index_t first_row;
  bool exact = false;  // never rounded to bf16
};

/// Collects the slices of a layer's tensors.
class slice_list {
 public:
  slice_list(const decoder_description& model, std::string prefix) : model_(model), prefix_(std::move(prefix)) {}

  std::vector<tensor_slice> take() { return std::move(slices_); }

  void vector(const std::string& name, index_t size, std::vector<float>& to, index_t first_row = 0,
              bool exact = false) {
    slices_.push_back({prefix_ + name, {size}, 0, size, nullptr, &to, first_row, exact});
  }
  void norm(const std::string& name, norm_weights& to) {
    if (name.empty()) return;
    vector(name + ".weight", model_.hidden, to.w);
    if (model_.norm == norm_kind::layer) vector(name + ".bias", model_.hidden, to.b);
  }
  void linear(const std::string& name, index_t out, index_t in, bool bias, linear_weights& to, index_t first_row = 0) {
    slices_.push_back({prefix_ + name + ".weight", {out, in}, 0, out, &to.w, nullptr, first_row});
    if (bias) vector(name + ".bias", out, to.b, first_row);
  }
  /// Adds q, k and v (without v if `only_qk`) as rows of one matrix, for every layout of the checkpoint.
  void qkv(const layer_description& layer, bool only_qk, linear_weights& to) {
    const decoder_description& d = model_;
    const head_shape heads = d.heads_of(layer);
    const index_t q = d.query_heads * heads.head_dim, k = heads.key_width();
    if (!d.names.stacked_qkv.empty()) {
      const std::string name = prefix_ + d.names.stacked_qkv;
      const index_t all = q + 2 * k, rows = only_qk ? q + k : all;
      slices_.push_back({name + ".weight", {all, d.hidden}, 0, rows, &to.w, nullptr, 0});
      if (d.qkv_bias) slices_.push_back({name + ".bias", {all}, 0, rows, nullptr, &to.b, 0});
      return;
    }
    if (d.names.qkv.empty()) {
      if (d.gated_output && !d.gated_heads)
        gated_queries(0, to, 0);
      else
        linear("self_attn.q_proj", q, d.hidden, d.qkv_bias, to, 0);
      linear("self_attn.k_proj", k, d.hidden, d.qkv_bias, to, q);
      if (!only_qk)
        linear(layer.values_of_keys ? "self_attn.k_proj" : "self_attn.v_proj", k, d.hidden, d.qkv_bias, to, q + k);
      if (!only_qk && d.gated_heads)
        linear("self_attn.gate_proj", d.query_heads, d.hidden, false, to, q + 2 * k);
      else if (!only_qk && d.gated_output)
        gated_queries(1, to, q + 2 * k);
      return;
    }
    for (index_t h = 0; h < d.query_heads; ++h)
      for (index_t part = 0; part < (only_qk ? 2 : 3); ++part) {
        const index_t first = (3 * h + part) * d.head_dim, first_row = part * q + h * d.head_dim;
        const std::string name = prefix_ + d.names.qkv;
        slices_.push_back({name + ".weight", {3 * q, d.hidden}, first, d.head_dim, &to.w, nullptr, first_row});
        if (d.qkv_bias) slices_.push_back({name + ".bias", {3 * q}, first, d.head_dim, nullptr, &to.b, first_row});
      }
  }
  /// Adds from q_proj with gates the queries (`part` 0) or the gates (1) of all heads.
  void gated_queries(index_t part, linear_weights& to, index_t first_row) {
    const decoder_description& d = model_;
    const index_t rows = 2 * d.query_heads * d.head_dim;
    for (index_t h = 0; h < d.query_heads; ++h) {
      const index_t first = (2 * h + part) * d.head_dim, row = first_row + h * d.head_dim;
      const std::string name = prefix_ + "self_attn.q_proj";
      slices_.push_back({name + ".weight", {rows, d.hidden}, first, d.head_dim, &to.w, nullptr, row});
      if (d.qkv_bias) slices_.push_back({name + ".bias", {rows}, first, d.head_dim, nullptr, &to.b, row});
    }
  }
  /// Adds a delta net's projections: from in_proj_qkvz or its two parts, and from in_proj_ba.
  void key_heads_of_delta(linear_weights& to) {
    const delta_description& n = *model_.delta;
    const index_t group = n.value_heads / n.key_heads, values = group * n.value_dim, keys = n.key_heads * n.key_dim;
    const auto part = [&](const char* name, index_t rows, index_t first, index_t count, index_t row) {
      slices_.push_back(
          {prefix_ + "linear_attn." + name + ".weight", {rows, model_.hidden}, first, count, &to.w, nullptr, row});
    };
    if (n.apart) {
      linear("linear_attn.in_proj_qkv", n.channels(), model_.hidden, false, to);
      linear("linear_attn.in_proj_z", n.values(), model_.hidden, false, to, n.channels());
    }
    for (index_t h = 0; h < n.key_heads && !n.apart; ++h) {
      const index_t all = 2 * (keys + n.values()), first = h * 2 * (n.key_dim + values);
      part("in_proj_qkvz", all, first, n.key_dim, h * n.key_dim);
      part("in_proj_qkvz", all, first + n.key_dim, n.key_dim, keys + h * n.key_dim);
      part("in_proj_qkvz", all, first + 2 * n.key_dim, values, 2 * keys + h * values);
      part("in_proj_qkvz", all, first + 2 * n.key_dim + values, values, n.channels() + h * values);
    }
    for (index_t h = 0; h < n.key_heads; ++h)
      for (index_t i = 0; i < 2; ++i)
        part("in_proj_ba", 2 * n.value_heads, (2 * h + i) * group, group,
             n.channels() + n.values() + i * n.value_heads + h * group);
  }
  /// Adds rows [first, first + count) of a convolution's matrix (rows, 1, kernel) from row `to_row` on.
  void convolution(const std::string& name, index_t rows, index_t first, index_t count, delta_weights& to,
                   index_t to_row) {
    slices_.push_back(
        {prefix_ + name, {rows, 1, model_.delta->kernel}, first, count, nullptr, &to.convolution, to_row});
  }
  /// Adds a state space, whose matrices hold gates, x, B, C and steps of time, in the order C, B, x, gates, steps.
  void state_space(layer_weights& to) {
    const delta_description& n = *model_.delta;
    const index_t x = n.values(), keys = n.key_heads * n.key_dim;
    struct part {
      index_t first, count, row;  // of the input matrix
    };
    for (const part& p : {part{2 * x + keys, keys, 0},
                          {2 * x, keys, keys},
                          {x, x, 2 * keys},
                          {0, x, n.channels()},
                          {2 * x + 2 * keys, n.value_heads, n.channels() + x}}) {
      slices_.push_back(
          {prefix_ + "mamba.in_proj.weight", {n.width(), model_.hidden}, p.first, p.count, &to.qkv.w, nullptr, p.row});
      if (p.row >= n.channels()) continue;
      convolution("mamba.conv1d.weight", n.channels(), p.first - x, p.count, to.delta, p.row);
      if (n.convolution_bias)
        slices_.push_back(
            {prefix_ + "mamba.conv1d.bias", {n.channels()}, p.first - x, p.count, nullptr, &to.delta.bias, p.row});
    }
    vector("mamba.dt_bias", n.value_heads, to.delta.keep_bias);
    vector("mamba.A_log", n.value_heads, to.delta.keep_log);
    vector("mamba.D", n.value_heads, to.delta.skip);
    vector("mamba.norm.weight", x, to.delta.norm);
    linear("mamba.out_proj", model_.hidden, x, false, to.output);
  }
  void delta(layer_weights& to) {
    const delta_description& n = *model_.delta;
    if (n.kind == net_kind::state_space) return state_space(to);
    if (n.kind == net_kind::convolution) {
      linear("conv.in_proj", n.width(), model_.hidden, false, to.qkv);
      convolution("conv.conv.weight", n.values(), 0, n.values(), to.delta, 0);
      return linear("conv.out_proj", model_.hidden, n.values(), false, to.output);
    }
    const std::string own = "linear_attn.";
    if (n.by_key_head) {
      key_heads_of_delta(to.qkv);
    } else if (n.all_apart) {
      const index_t keys = n.key_heads * n.key_dim;
      index_t row = 0;
      for (const auto& [name, rows] : {std::pair{"q", keys},
                                       {"k", keys},
                                       {"v", n.values()},
                                       {"g", n.values()},
                                       {"b", n.value_heads},
                                       {"a", n.value_heads}}) {
        linear(own + name + "_proj", rows, model_.hidden, false, to.qkv, row);
        if (row < n.channels()) convolution(own + name + "_conv1d.weight", rows, 0, rows, to.delta, row);
        row += rows;
      }
    } else {
      linear(own + "in_proj_qkv", n.channels(), model_.hidden, false, to.qkv);
      linear(own + "in_proj_z", n.values(), model_.hidden, false, to.qkv, n.channels());
      linear(own + "in_proj_b", n.value_heads, model_.hidden, false, to.qkv, n.channels() + n.values());
      linear(own + "in_proj_a", n.value_heads, model_.hidden, false, to.qkv, n.width() - n.value_heads);
    }
    if (!n.all_apart) convolution(own + "conv1d.weight", n.channels(), 0, n.channels(), to.delta, 0);
    vector(own + "dt_bias", n.value_heads, to.delta.keep_bias);
    vector(own + "A_log", n.value_heads, to.delta.keep_log);
    vector(own + (n.all_apart ? "o_norm" : "norm") + ".weight", n.value_dim, to.delta.norm);
    linear(own + (n.all_apart ? "o_proj" : "out_proj"), model_.hidden, n.values(), false, to.output);
  }
  void latent(latent_weights& to) {
    const decoder_description& d = model_;
    const latent_description& l = *d.latent;
    const std::string own = "self_attn.";
    if (l.query_rank > 0) {
      linear(own + "q_a_proj", l.query_rank, d.hidden, l.bias, to.down);
      vector(own + "q_a_layernorm.weight", l.query_rank, to.query_norm);
    }
    linear(own + "kv_a_proj_with_mqa", l.key_rank + l.rotated, d.hidden, l.bias, to.down, l.query_rank);
    vector(own + "kv_a_layernorm.weight", l.key_rank, to.key_norm);
    linear(own + (l.query_rank > 0 ? "q_b_proj" : "q_proj"), d.query_heads * d.head_dim,
           l.query_rank > 0 ? l.query_rank : d.hidden, false, to.queries);
    linear(own + "kv_b_proj", d.key_heads * (l.plain + l.value_dim), l.key_rank, false, to.keys);
  }
  void indexer(bool only_qk, indexer_weights& to) {
    const indexer_description& i = *model_.indexer;
    const std::string own = "self_attn.indexer.";
    linear(own + "wq_b", i.heads * i.dim, model_.latent->query_rank, false, to.queries);
    linear(own + "wk", i.dim, model_.hidden, false, to.key);
    vector(own + "k_norm.weight", i.dim, to.key_norm.w);
    vector(own + "k_norm.bias", i.dim, to.key_norm.b);
    if (!only_qk) linear(own + "weights_proj", i.heads, model_.hidden, false, to.weights);
  }
  /// Adds a gated feed-forward whose names begin with `name`.
  void gated(const std::string& name, index_t width, bool bias, feed_forward_weights& to) {
    const auto& [gate, up, down] = model_.names.gated_parts;
    linear(name + gate, width, model_.hidden, bias, to.up, 0);
    linear(name + up, width, model_.hidden, bias, to.up, width);
    linear(name + down, model_.hidden, width, bias, to.down);
  }
  void feed_forward(feed_forward_weights& to) {
    const decoder_description& d = model_;
    if (d.feed_forward_form == feed_forward_kind::gated)
      return gated(d.names.gated, d.feed_forward, d.feed_forward_bias, to);
    const index_t rows = (d.feed_forward_form == feed_forward_kind::fused_gated ? 2 : 1) * d.feed_forward;
    linear(d.names.up, rows, d.hidden, d.feed_forward_bias, to.up);
    linear(d.names.down, d.hidden, d.feed_forward, d.feed_forward_bias, to.down);
  }

 private:
  const decoder_description& model_;
  std::string prefix_;
  std::vector<tensor_slice> slices_;
};

std::vector<tensor_slice> slices_of(const decoder_description& d, const std::string& prefix, index_t layer,
                                    bool only_qk, layer_weights& to) {
  const layer_description& l = d.layers[layer];
  const weight_names& names = d.names_of(l);
  slice_list list(d, prefix + "layers." + std::to_string(layer) + ".");
  list.norm(names.attention_norm, to.attention_norm);
  if (l.delta)
    list.delta(to);
  else if (d.latent)
    list.latent(to.latent);
  else
    list.qkv(l, only_qk, to.qkv);
  if (l.indexer) list.indexer(only_qk, to.indexer);
  const head_shape heads = d.heads_of(l);
  if (l.delta) {
    // a delta net has no norms of queries and keys
  } else if (d.qk == qk_norm::each_rotated_head) {
    to.q_norm.assign(heads.head_dim, 1);
    to.k_norm = to.q_norm;
  } else if (d.qk != qk_norm::none) {
    const bool each = d.qk != qk_norm::all_heads;
    list.vector(d.names.q_norm + ".weight", each ? heads.head_dim : d.query_heads * heads.head_dim, to.q_norm);
    list.vector(d.names.k_norm + ".weight", each ? heads.head_dim : heads.key_width(), to.k_norm);
  }
  if (only_qk) return list.take();
  if (d.sinks) list.vector(sinks_name, d.query_heads, to.sinks);
  if (d.value_norm) to.v_norm.assign(heads.head_dim, 1);
  if (d.layer_factor) list.vector("layer_scalar", 1, to.factor);
  if (!l.delta) list.linear(d.names.output, d.hidden, d.query_heads * d.value_dim(l), d.output_bias, to.output);
  list.norm(names.attention_out_norm, to.attention_out_norm);
  list.norm(names.feed_forward_norm, to.feed_forward_norm);
  list.norm(names.feed_forward_out_norm, to.feed_forward_out_norm);
  if (!l.experts) {
    list.feed_forward(to.feed_forward);
    return list.take();
  }
  const experts_description& e = *d.experts;
  list.linear(e.router, e.count, d.hidden, e.biases, to.router);
  if (e.sigmoids) list.vector("mlp.gate.e_score_correction_bias", e.count, to.router.b, 0, true);
  if (e.shared_width > 0) list.gated(e.shared, e.shared_width, false, to.feed_forward);
  if (e.gated_shared) list.linear("mlp.shared_expert_gate", 1, d.hidden, false, to.shared_gate);
  to.experts.resize(e.count);
  for (index_t i = 0; i < e.count; ++i) list.gated(e.own + std::to_string(i) + ".", e.width, e.biases, to.experts[i]);
  return list.take();
}

}  // namespace

std::string find_prefix(const decoder_description& model, const checkpoint& weights) {
  std::string tried;
  // Models without an output matrix are saved without their outer name.
  std::vector<std::string> prefixes = model.prefixes;
  prefixes.insert(prefixes.end(), {"language_model.", ""});
  for (const std::string& prefix : prefixes) {
    const std::string name = prefix + model.embedding + ".weight";
    if (weights.has(name)) return prefix;
    tried += (tried.empty() ? "" : " nor ") + name;
  }
  const std::string embedding = model.embedding + ".weight", wrapped = weights.name_behind(embedding);
  if (wrapped.empty()) fail("the checkpoint has no tensor ", tried);
  fail("the checkpoint has no tensor ", tried, ", but ", printable(wrapped, 200), ": its names begin with \"",
       printable(wrapped.substr(0, wrapped.size() - embedding.size()), 200),
       "\", as those of a model within another one do (torch.compile, DDP, FSDP); save the model without it");
}

void check_layer(const decoder_description& model, const checkpoint& weights, const std::string& prefix, index_t layer,
                 bool only_qk) {
  layer_weights nowhere;
  const auto slices = slices_of(model, prefix, layer, only_qk, nowhere);
  for (const tensor_slice& t : slices) weights.check(t.name, t.shape);
  // A GGUF file has no tensor that its model does not use; a folder of transformers may have some.
  if (!weights.is_gguf()) return;
  constexpr std::string_view weight = ".weight";
  for (const tensor_slice& t : slices) {
    if (!t.name.ends_with(weight)) continue;
    const std::string bias = t.name.substr(0, t.name.size() - weight.size()) + ".bias";
    require(!weights.has(bias) ||
                std::any_of(slices.begin(), slices.end(), [&](const tensor_slice& s) { return s.name == bias; }),
            "the tensor ", bias, " is not read in a model of type ", model.model_type);
  }
}

std::vector<std::vector<index_t>> layer_shapes(const decoder_description& model, index_t layer, bool only_qk) {
  layer_weights nowhere;
  std::vector<std::vector<index_t>> shapes;
  for (const tensor_slice& t : slices_of(model, "", layer, only_qk, nowhere)) {
    shapes.push_back(t.shape);
    shapes.back()[0] = t.count;
  }
  return shapes;
}

std::vector<tensor_rows> query_key_rows(const decoder_description& model, const std::string& prefix, index_t layer,
                                        index_t first, index_t count) {
  layer_weights to;
  std::vector<tensor_rows> rows;
  const index_t queries = model.query_heads * model.heads_of(model.layers[layer]).head_dim;
  for (const tensor_slice& s : slices_of(model, prefix, layer, true, to)) {
    const bool of_norm = model.qk == qk_norm::all_heads && (s.vector == &to.q_norm || s.vector == &to.k_norm);
    if (!of_norm && s.matrix != &to.qkv.w && s.vector != &to.qkv.b) continue;
    const index_t start = s.first_row + (s.vector == &to.k_norm ? queries : 0);
    const index_t begin = std::max(first, start), end = std::min(first + count, start + s.count);
    if (begin < end) rows.push_back({s.name, s.first + begin - start, end - begin});
  }
  return rows;
}

std::vector<float> read_vector(const checkpoint& weights, const std::string& prefix, index_t layer,
                               const std::string& name, index_t size) {
  std::vector<float> x(size);
  weights.read(prefix + "layers." + std::to_string(layer) + '.' + name, {size}, 0, size, false, x.data());
  return x;
}

void read_matrix(const checkpoint& weights, const std::string& name, const std::vector<index_t>& shape, index_t first,
                 index_t count, const weight_reading& how, thread_pool& pool, weight_matrix& to, index_t first_row) {
  constexpr index_t piece = 64;  // rows
  const index_t in = shape[1];
  to.reshape(first_row + count, in, how.format, how.memory);
  std::vector<std::vector<float>> rows(pool.size());
  pool.for_each((count + piece - 1) / piece, [&](index_t i, int thread) {
    const index_t skip = i * piece, n = std::min(piece, count - skip);
    if (how.format == weight_format::f32)
      return weights.read(name, shape, first + skip, n, how.to_bf16, to.row(first_row + skip));
    if (how.format == weight_format::bf16_rows)
      return weights.read_bf16(name, shape, first + skip, n, to.bf16_row(first_row + skip));
    auto& own = rows[thread];
    own.resize(piece * in);
    weights.read(name, shape, first + skip, n, how.to_bf16, own.data());
    to.set(first_row + skip, n, own.data());
  });
}

void read_layer(const decoder_description& model, const checkpoint& weights, const std::string& prefix, index_t layer,
                bool only_qk, const weight_reading& how, thread_pool& pool, layer_weights& to) {
  const auto slices = slices_of(model, prefix, layer, only_qk, to);
  // A matrix of several slices gets its whole size at once, from its last slice.
  for (auto t = slices.rbegin(); t != slices.rend(); ++t)
    if (t->matrix) t->matrix->reshape(t->first_row + t->count, t->shape[1], how.format, how.memory);
  for (const tensor_slice& t : slices) {
    if (t.matrix) {
      read_matrix(weights, t.name, t.shape, t.first, t.count, how, pool, *t.matrix, t.first_row);
    } else {
      const index_t row = checkpoint::row_size(t.shape);
      const auto size = static_cast<std::size_t>((t.first_row + t.count) * row);
      if (t.vector->size() < size) t.vector->resize(size);
      weights.read(t.name, t.shape, t.first, t.count, how.to_bf16 && !t.exact, t.vector->data() + t.first_row * row);
    }
  }
  for (const tensor_slice& t : slices) weights.forget(t.name);
}

output_matrix find_output(const decoder_description& d, const checkpoint& weights, const std::string& prefix) {
  weights.check(prefix + d.final_norm + ".weight", {d.hidden});
  if (d.norm == norm_kind::layer) weights.check(prefix + d.final_norm + ".bias", {d.hidden});
  output_matrix found;
  std::string tried;
  const auto has = [&](const std::string& name, index_t rows) {
    tried += (tried.empty() ? "" : " nor ") + name;
    if (!weights.has(name)) return false;
    found = {name, {rows, d.hidden}};
    weights.check(found.name, found.shape);
    return true;
  };
  // The model's own output matrix comes before a tied embedding, as in transformers.
  for (const std::string& name : d.outputs)
    if (has(name, d.vocabulary)) return found;
  if (d.tied && has(prefix + d.embedding + ".weight", d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary))
    return found;
  fail("the loss needs the output matrix, but the checkpoint has no tensor ", tried);
}

bool has_own_output(const decoder_description& d, const checkpoint& weights) {
  const std::string prefix = find_prefix(d, weights), embedding = prefix + d.embedding + ".weight";
  const output_matrix out = find_output(d, weights, prefix);
  if (out.name == embedding) return false;
  const index_t rows = d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary;
  if (rows != out.shape[0]) return true;
  constexpr index_t at_once = 1024;
  std::vector<float> a(static_cast<std::size_t>(at_once * d.hidden)), b(a.size());
  for (index_t first = 0; first < rows; first += at_once) {
    const index_t count = std::min(at_once, rows - first), n = count * d.hidden;
    weights.read(embedding, {rows, d.hidden}, first, count, false, a.data());
    weights.read(out.name, out.shape, first, count, false, b.data());
    if (!std::equal(a.begin(), a.begin() + n, b.begin())) return true;
  }
  return false;
}

}  // namespace qkgeom
