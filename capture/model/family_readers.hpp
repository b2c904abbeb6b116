// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "capture/model/description.hpp"
#include "qkgeom/io/rope_config.hpp"

namespace qkgeom {

/// Reads the fields that Llama and its successors share, except rotary embedding, activation and biases. `usual` is a
/// JSON object with the family's values for fields that config.json lacks.
decoder_description read_shape(const json_value& config, const char* usual = "{}");

/// Reads shape, rotary embedding and hidden_act (silu where it is absent).
decoder_description read_common(const json_value& config, const char* usual = "{}", const rope_defaults& rope = {});

/// Returns config.json with the values of `usual`, a JSON object, for the fields that it does not name.
nlohmann::json with_usual(const json_value& config, const char* usual);

/// Reads a number of heads, experts, layers or their like, at least 1; `otherwise` where it is absent.
inline index_t count_of(const json_value& config, const char* field, index_t otherwise) {
  return config.integer(field, 1, 65536).value_or(otherwise);
}

/// Prefixes of the text model's tensors in checkpoints with images, older and newer.
inline const std::vector<std::string> wrapped_prefixes{"language_model.model.", "model.language_model.", "model."};

/// Returns the list `name` with at least one entry per layer; null if config.json has none.
const nlohmann::json* layer_list(const json_value& config, const char* name, std::size_t layers);

/// Sets `window` on the layers that `layer_types` calls sliding; without that list, on layers for which `slides(i)`.
template <class Slides>
void set_windows(const json_value& config, decoder_description& model, std::optional<index_t> window, Slides&& slides) {
  const auto* types = layer_list(config, "layer_types", model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    bool sliding = slides(i);
    if (types) {
      const auto& type = (*types)[i];
      require(type == "full_attention" || type == "sliding_attention", config.where(), ": layer type ",
              printable(type.dump()),
              " is not supported for this family; supported: full_attention, sliding_attention");
      sliding = type == "sliding_attention";
      require(!sliding || window, config.where(), ": layer_types calls layer ", i,
              " sliding_attention, but sliding_window or use_sliding_window gives it no window");
    }
    if (sliding) model.layers[i].window = window;
  }
}

/// Sets the same window on every layer; without a value, no window.
void set_window(decoder_description& model, std::optional<index_t> window);

/// Sets windows where each `period`-th layer is full and the others slide; without a window all are full.
void set_alternating_windows(const json_value& config, decoder_description& model, index_t period);

/// Reads separate rotary embeddings of full and sliding layers: `rope_parameters` by type of layer, or `rope_scaling`
/// of the full layers; the two bases are defaults.
void read_ropes_by_type(const json_value& config, decoder_description& model, double full_theta, double sliding_theta);

/// Reads `sliding_window`: `otherwise` where it is absent, no value where it is null.
std::optional<index_t> read_window(const json_value& config, std::optional<index_t> otherwise);
/// Reads `read_window` where `use_sliding_window` is true, else returns no value.
std::optional<index_t> read_switched_window(const json_value& config, std::optional<index_t> otherwise);

/// Reads the activation that `field` names; `otherwise` where it is absent. Throws `error` on an unsupported one.
activation read_activation(const json_value& config, const char* field, const std::string& otherwise);

/// Reads `attention_bias`, which switches the biases of q, k, v and output in most families.
void read_attention_bias(const json_value& config, decoder_description& model);

/// Norms the outputs of attention and feed-forward alone, not their inputs.
void norm_outputs_alone(decoder_description& model);

/// Reads a mixture of experts: their number from the field `count`, or as transformers 5 writes it; `otherwise` gives
/// missing fields. Throws `error` if there are fewer than `least`, or fewer than a token takes.
experts_description read_experts(const json_value& config, const char* count, index_t least,
                                 const experts_description& otherwise);

/// Reads experts that corrected sigmoids choose, beside a feed-forward that all tokens take. All layers but the first
/// `dense` have them, unless config.json gives another number; `otherwise` gives missing fields.
void read_sigmoid_experts(const json_value& config, decoder_description& model, const experts_description& otherwise,
                          index_t dense);

/// Reads which layers rotate: `no_rope_layers` holds 1 for one; without it, all but each `no_rope_layer_interval`-th.
void read_rotating_layers(const json_value& config, decoder_description& model);

/// Sets the layers with experts: each `decoder_sparse_step`-th, except those in `mlp_only_layers`.
void set_sparse_layers(const json_value& config, decoder_description& model);

/// Reads from the rotary parameters how queries grow with position; no value where they do not.
std::optional<query_growth> read_growth(const json_value& config, const json_value& rope, index_t context);

/// Reads Mistral Small 4, which Mistral 3 may hold as its text model.
decoder_description read_mistral4(const json_value& config);

/// Reads the state spaces (Mamba 2) of a model, whose hidden size and activation `model` holds.
delta_description read_state_space(const json_value& config, const decoder_description& model);

/// Reads OLMo 2, whose norms and attention its successors share.
decoder_description read_olmo2(const json_value& config);

/// Returns Ministral 3's rotary parameters, for a config.json without them.
const nlohmann::json& ministral3_rope();

}  // namespace qkgeom
