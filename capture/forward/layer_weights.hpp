// SPDX-License-Identifier: MIT
#pragma once

#include <memory_resource>
#include <string>
#include <vector>

#include "capture/forward/products/linear.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom {

/// A norm's weights and, for `norm_kind::layer`, biases.
struct norm_weights {
  std::vector<float> w, b;
};

/// A linear map y = w x + b, (out, in) and (out).
struct linear_weights {
  weight_matrix w;
  std::vector<float> b;
};

/// Weights of a feed-forward: gate and up are one matrix (2 width, hidden); without a gate, up alone.
struct feed_forward_weights {
  linear_weights up, down;
};

/// Weights of latent attention: `down` gives the latent rows of queries, then of keys, then the rotated part of a key.
struct latent_weights {
  linear_weights down, queries, keys;  ///< keys: rows of a head's plain channels, then its value
  std::vector<float> query_norm, key_norm;
};

/// Weights of an indexer: `weights` gives the weights of its heads.
struct indexer_weights {
  linear_weights queries, key, weights;
  norm_weights key_norm;
};

/// Weights of a net in place of attention besides `output` and `qkv`, which holds all its projections of hidden states.
struct delta_weights {
  std::vector<float> convolution;          ///< (channels, kernel)
  std::vector<float> bias;                 ///< (channels), of a state space
  std::vector<float> keep_bias, keep_log;  ///< (value heads)
  std::vector<float> skip;                 ///< (value heads), of a state space
  std::vector<float> norm;                 ///< (value_dim), of a state space (values)
};

/// Weights of one layer; q, k and v are one matrix.
struct layer_weights {
  norm_weights attention_norm, attention_out_norm, feed_forward_norm, feed_forward_out_norm;
  linear_weights qkv, output;
  latent_weights latent;  ///< takes the place of qkv
  indexer_weights indexer;
  delta_weights delta;
  std::vector<float> q_norm, k_norm, v_norm;
  std::vector<float> sinks;   ///< (query heads) logits
  std::vector<float> factor;  ///< (1) factor of hidden states
  feed_forward_weights feed_forward;
  linear_weights router, shared_gate;
  std::vector<feed_forward_weights> experts;
};

/// Finds the prefix of a checkpoint's tensor names: the first of the description's prefixes, or of those that base
/// models are saved with, under which it has the embedding. Throws `error` if there is none.
std::string find_prefix(const decoder_description& model, const checkpoint& weights);

/// Checks names and shapes of all tensors that a layer needs; with `only_qk` those of queries and keys.
void check_layer(const decoder_description& model, const checkpoint& weights, const std::string& prefix, index_t layer,
                 bool only_qk);

/// Returns the shapes of the tensors that `check_layer` checks, one per slice.
std::vector<std::vector<index_t>> layer_shapes(const decoder_description& model, index_t layer, bool only_qk);

/// Rows [first, first + count) of a checkpoint's tensor.
struct tensor_rows {
  std::string name;
  index_t first, count;
};

/// Finds rows [first, first + count) of a layer's queries and keys (the queries of all heads, then the keys) in the
/// checkpoint: rows of weights and biases, and of norms that have their own weights for each head.
std::vector<tensor_rows> query_key_rows(const decoder_description& model, const std::string& prefix, index_t layer,
                                        index_t first, index_t count);

/// Tensor of a layer that holds the logits of its query heads' sinks.
inline constexpr const char* sinks_name = "self_attn.sinks";

/// Reads a vector of a layer, such as its sinks.
std::vector<float> read_vector(const checkpoint& weights, const std::string& prefix, index_t layer,
                               const std::string& name, index_t size);

/// How weights are read.
struct weight_reading {
  bool to_bf16 = false;  ///< rounded as a model loaded in bf16 is
  weight_format format = weight_format::f32;
  std::pmr::memory_resource* memory = nullptr;  ///< memory of matrices in `weight_format::bf16_rows`; null: the usual
};

/// Reads a layer's weights and gives the checkpoint's pages that hold them back to the system.
void read_layer(const decoder_description& model, const checkpoint& weights, const std::string& prefix, index_t layer,
                bool only_qk, const weight_reading& how, thread_pool& pool, layer_weights& to);

/// Reads rows [first, first + count) of a checkpoint's matrix into the rows of `to` from `first_row` on.
void read_matrix(const checkpoint& weights, const std::string& name, const std::vector<index_t>& shape, index_t first,
                 index_t count, const weight_reading& how, thread_pool& pool, weight_matrix& to, index_t first_row = 0);

/// The tensor that maps hidden states to logits.
struct output_matrix {
  std::string name;
  std::vector<index_t> shape;  ///< (words, hidden)
};
/// Finds the first of the description's names that the checkpoint has, or the embedding if there is none and the output
/// is tied. Throws `error` if there is neither, or if the tensor or the last norm has a wrong shape.
output_matrix find_output(const decoder_description& model, const checkpoint& weights, const std::string& prefix);

/// Returns whether the checkpoint has an output matrix of other entries than the embedding.
bool has_own_output(const decoder_description& d, const checkpoint& weights);

}  // namespace qkgeom
