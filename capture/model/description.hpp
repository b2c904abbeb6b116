// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/context/row_rotation.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/rotary/embedding.hpp"

namespace qkgeom {

/// Heads of a layer's attention; every layer has the same number of query heads.
struct head_shape {
  index_t key_heads = 0, head_dim = 0;

  index_t key_width() const { return key_heads * head_dim; }
  bool operator==(const head_shape&) const = default;
};

/// Differences of one decoder layer from the others.
struct layer_description {
  bool rope = true;
  std::optional<index_t> window{};  ///< sliding window in tokens; without a value: full causal attention
  std::optional<index_t> chunk{};   ///< tokens; queries see only keys of their own chunk of the document
  bool local_rope = false;          ///< rotates with `decoder_description::local_rope`
  bool skipped = false;             ///< the layer does nothing to text (it attends to images)
  bool delta = false;               ///< `decoder_description::delta` in place of attention; it has no queries and keys
  bool experts = false;             ///< its feed-forward is the mixture of experts
  bool indexer = false;  ///< has `decoder_description::indexer` of its own; else the keys chosen in the layer before
  std::optional<head_shape> heads{};  ///< without a value: `decoder_description`'s
  bool values_of_keys = false;        ///< values come from the keys' matrix
};

enum class activation { silu, gelu, gelu_tanh };

/// Norms of x with weights w (`layer`: and biases b), where n = x / sqrt(mean(x^2) + eps). `llama`, `gemma` and `olmo`
/// differ in where a bf16 model rounds.
enum class norm_kind {
  llama,   ///< w round(n)
  gemma,   ///< (1 + w) n
  olmo,    ///< w n
  layer,   ///< (x - mean) / sqrt(variance + eps) w + b
  centred  ///< (x - mean) / sqrt(variance + eps) w
};

/// Norm of queries and keys, before the rotation unless the name says otherwise. `each_rotated_head`: after it, without
/// weights, in layers that rotate.
enum class qk_norm { none, each_head, all_heads, each_head_after_rotation, each_rotated_head };

enum class feed_forward_kind {
  gated,        ///< down(act(gate x) (up x))
  fused_gated,  ///< as `gated`, with gate and up stored as one matrix
  not_gated     ///< down(act(up x))
};

/// Names of a layer's tensors without `.weight`. Empty: no such norm.
struct weight_names {
  std::string attention_norm = "input_layernorm", attention_out_norm{};
  std::string feed_forward_norm = "post_attention_layernorm", feed_forward_out_norm{};
  std::string qkv{};  ///< not empty: q, k, v are one matrix, rows head by head: q, k and v of head 0, of head 1, ...
  std::string stacked_qkv{};  ///< not empty: q, k, v are one matrix, rows of all q, of all k, of all v
  std::string q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm";
  std::string output = "self_attn.o_proj";
  std::string gated = "mlp.";  ///< prefix of the names of `gated`'s three matrices
  std::array<const char*, 3> gated_parts{"gate_proj", "up_proj", "down_proj"};
  std::string up = "mlp.up_proj", down = "mlp.down_proj";  ///< `fused_gated`: gate and up
};

/// A mixture of experts: each token takes the `chosen` most probable experts, weighted by probability.
struct experts_description {
  index_t count = 0, chosen = 0, width = 0;
  bool normalised = false;  ///< the chosen probabilities are divided by their sum
  bool biases = false;      ///< of router and experts
  double limit = 0;         ///< bound of gate and up, whose product is (up + 1) gate sigmoid(1.702 gate); 0: no bound
  std::string router = "mlp.gate", own = "mlp.experts.", shared = "mlp.shared_experts.";
  bool scales_inputs = false;  ///< multiplies an expert's input, not its output, by the sigmoid of its logit
  bool sigmoids = false;       ///< shares are sigmoids; sigmoids plus a correction per expert choose
  /// With sigmoids: the `chosen_groups` groups whose two best experts have the largest sums supply experts.
  index_t groups = 1, chosen_groups = 1;
  double scale = 1;           ///< factor of sigmoids as weights
  index_t shared_width = 0;   ///< width of a feed-forward that every token takes besides; 0: no such layer
  bool gated_shared = false;  ///< multiplies its result by a sigmoid of the token
};

/// Latent attention (DeepSeek-AI 2024): queries and keys of a head have a part without rotary embedding and one with
/// it, side by side. They and the values are products of latent rows, which are normed; all heads share the rotated
/// part of a key.
struct latent_description {
  index_t query_rank = 0;          ///< length of the latent rows of queries; 0: queries are products of hidden states
  index_t key_rank = 0;            ///< length of the latent rows of values and of keys' parts without rotation
  index_t plain = 0, rotated = 0;  ///< channels of the two parts
  index_t value_dim = 0;           ///< channels of a value, at most those of a head
  bool bias = false;               ///< whether the maps to the latent rows have biases
  bool pairs = true;               ///< weights store the rotated part in neighbouring pairs; captured rows have halves
  static constexpr double eps = 1e-6;  ///< of the latent rows' norms
};

/// The indexer of sparse attention (DeepSeek-AI 2025): its heads score the keys up to a query, and the attention sees
/// the `chosen` best alone. A score is the sum of weight relu(q.k) over the heads. Queries are products of the latent
/// row, weights and the one key that all heads share of the hidden state.
struct indexer_description {
  index_t heads = 0, dim = 0;  ///< the first `latent_description::rotated` channels rotate as those of the attention do
  index_t chosen = 0;          ///< keys that a query's attention sees at most
  bool pairs = false;          ///< weights store the rotated part in neighbouring pairs; captured rows have halves
};

/// Kinds of nets in place of attention.
enum class net_kind {
  delta,        ///< a gated delta net (Yang et al. 2024): the state learns by how far it was off
  state_space,  ///< Mamba 2 (Dao and Gu 2024): the state learns each value whole, and the answer has a share of it
  convolution   ///< LFM: a product of two rows is convolved over the last tokens and multiplied by a third row
};

/// A net in place of attention: each value head keeps a state (key_dim, value_dim) that fades and learns with each
/// token; queries, keys and values are first convolved over the last tokens. Mamba calls them C, B and x, and the key
/// heads groups. A convolution has one value head and no keys.
struct delta_description {
  index_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  index_t kernel = 4;        ///< tokens of the convolution, the current one included
  bool by_key_head = false;  ///< the input matrix is stored key head by key head,
  bool apart = false;        ///< only its rates and decays are; queries, keys, values and gates are apart
  net_kind kind = net_kind::delta;
  bool all_apart = false;         ///< queries, keys, values, gates, rates and decays are each stored apart
  bool convolution_bias = false;  ///< of a state space
  float most_learned = 1;         ///< factor of a delta net's rates
  float least_step = 0, most_step = HUGE_VALF;  ///< bounds of a state space's rates
  std::optional<double> norm_eps{};             ///< of the answers' norm; without a value: the model's

  QKGEOM_HD index_t values() const { return value_heads * value_dim; }
  QKGEOM_HD index_t channels() const { return 2 * key_heads * key_dim + values(); }  ///< channels of the convolution
  QKGEOM_HD index_t width() const {  ///< columns of the product that the net reads
    return kind == net_kind::convolution ? 3 * values()
                                         : channels() + values() + (kind == net_kind::delta ? 2 : 1) * value_heads;
  }
  QKGEOM_HD index_t state_width() const { return channels() + 2 * value_heads; }
};

/// A decoder as data: all that the forward pass needs to know about a model besides weights.
struct decoder_description {
  std::string model_type;
  index_t hidden = 0, feed_forward = 0, vocabulary = 0;
  index_t query_heads = 0, key_heads = 0, head_dim = 0;
  index_t context = 0;             ///< tokens, max_position_embeddings
  index_t embedding_rows = 0;      ///< 0: the vocabulary
  bool tied = false;               ///< the embedding is the output matrix if there is no other
  double logit_scale = 1;          ///< factor of logits,
  double logit_cap = 0;            ///< then x becomes c tanh(x / c); 0: no cap
  bool scaled_embedding = false;   ///< embeddings times sqrt(hidden)
  double embedding_scale = 1;      ///< factor of embeddings
  double residual_scale = 1;       ///< factor of attention and feed-forward before they are added to the hidden state
  bool parallel_residual = false;  ///< attention and feed-forward read the same hidden state
  bool adds_in_order = false;      ///< a parallel attention is added to the hidden state before the feed-forward is
  bool qkv_bias = false, output_bias = false, feed_forward_bias = false;
  activation act = activation::silu;
  feed_forward_kind feed_forward_form = feed_forward_kind::gated;
  norm_kind norm = norm_kind::llama;
  double norm_eps = 1e-6;
  qk_norm qk = qk_norm::none;
  bool value_norm = false;              ///< each head's value is normed, without weights
  bool layer_factor = false;            ///< hidden states are multiplied by a number of the layer at its end
  std::optional<double> score_scale{};  ///< without a value: head_dim^-1/2
  double score_cap = 0;                 ///< scaled scores x become c tanh(x / c) before the softmax; 0: no cap
  bool sinks = false;                   ///< each query head has one more logit in its softmax, without a key
  std::optional<query_growth> growth{};
  bool growth_unrotated = false;  ///< queries grow in layers without rotary embedding, and positions count from 1
  std::optional<latent_description> latent{};
  std::optional<indexer_description> indexer{};
  bool indexer_rows = false;  ///< sinks get queries and keys of indexers instead of the attention's
  std::optional<delta_description> delta{};
  bool gated_output = false;  ///< sigmoids multiply attention's result; q_proj holds a head's, after its query
  bool gated_heads = false;   ///< of `gated_output`: one sigmoid per head, of a matrix of its own
  std::optional<experts_description> experts{};
  rope_description rope;
  std::optional<rope_description> local_rope{};
  std::vector<layer_description> layers;
  weight_names names{};
  std::optional<weight_names> net_names{};  ///< of layers with `delta`; without a value: `names`
  std::string embedding = "embed_tokens", final_norm = "norm";
  std::vector<std::string> outputs{"lm_head.weight", "language_model.lm_head.weight"};  ///< full names
  std::vector<std::string> prefixes{"model."};  ///< of tensor names; the first with an embedding counts

  /// Returns the tokens that the model was made for, the scaling of its rotary embedding included.
  index_t longest_context() const { return std::max(context, rope.scaled_context); }
  /// Returns whether a layer's window hides keys from queries, in documents of up to `tokens` tokens or as long as the
  /// model was made for: some files name a window that no document fills.
  bool slides(const layer_description& l, index_t tokens) const {
    return l.window && *l.window < std::max(longest_context(), tokens);
  }
  /// Returns whether a layer has queries and keys that sinks get.
  bool attends(index_t l) const {
    return !layers[l].skipped && !layers[l].delta && (!indexer_rows || layers[l].indexer);
  }
  const weight_names& names_of(const layer_description& l) const { return l.delta && net_names ? *net_names : names; }
  bool norms_rotated(const layer_description& l) const {
    return qk == qk_norm::each_head_after_rotation || (qk == qk_norm::each_rotated_head && l.rope);
  }
  head_shape heads_of(const layer_description& l) const { return l.heads.value_or(head_shape{key_heads, head_dim}); }
  index_t value_dim(const layer_description& l) const { return latent ? latent->value_dim : heads_of(l).head_dim; }
  /// Returns the channels of a head in the layer that has most; `widest_keys` those of all key heads.
  index_t widest_head() const {
    index_t most = head_dim;
    for (const layer_description& l : layers) most = std::max(most, heads_of(l).head_dim);
    return most;
  }
  index_t widest_keys() const {
    index_t most = key_heads * head_dim;
    for (const layer_description& l : layers) most = std::max(most, heads_of(l).key_width());
    return most;
  }
  index_t n_layers() const { return static_cast<index_t>(layers.size()); }
  const rope_description& rope_of(const layer_description& l) const { return l.local_rope ? *local_rope : rope; }
};

using family_reader = decoder_description(const json_value& config);

/// A line of the table of families, which maps a model_type's config.json to a description.
struct decoder_family {
  std::string_view model_type;
  family_reader* read;
  /// Not empty: `read` gets the object text_config, whose model_type this is if it lacks one.
  std::string_view text_type{};
  bool text_type_alone = true;             ///< a config.json of `text_type`, for text alone, is of this family too
  std::string_view name{};                 ///< models in docs/capture.md; empty: those of the line before
  std::vector<std::string_view> fields{};  ///< fields that change what enters the attention and that few families know
};

std::span<const decoder_family> decoder_families();
/// Lists the `model_type`s of config.json that a line reads.
std::vector<std::string_view> model_types(const decoder_family& family);

/// Describes the model of a parsed config.json. Throws `error` that names an unknown family, an unsupported feature or
/// a bad field.
decoder_description read_description(const nlohmann::json& config);

/// Replaces the rotary scaling of a config.json by `scaling`: "none", "linear:FACTOR", "dynamic:FACTOR",
/// "yarn:FACTOR:ORIGINAL_CONTEXT", "llama3:FACTOR:LOW:HIGH:ORIGINAL_CONTEXT" or "longrope:FILE". The base frequency
/// stays.
nlohmann::json with_rope_scaling(nlohmann::json config, const std::string& scaling);

/// Sets the base of the rotary frequencies of a config.json. Throws for families with several bases (Gemma 3).
nlohmann::json with_rope_theta(nlohmann::json config, double theta);

}  // namespace qkgeom
