// SPDX-License-Identifier: MIT
// The Gemma families.
#include <algorithm>
#include <cmath>

#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

decoder_description read_gemma_shape(const json_value& config, const char* usual) {
  const auto* both = config.find("use_bidirectional_attention");  // "vision": within an image alone
  require(!both || *both == false || *both == "vision", config.where(),
          ": use_bidirectional_attention is not supported");
  decoder_description model = read_shape(config, usual);
  model.act = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  read_attention_bias(config, model);
  model.norm = norm_kind::gemma;
  model.scaled_embedding = true;
  model.score_scale = 1 / std::sqrt(config.positive("query_pre_attn_scalar").value_or(256));
  model.names.attention_out_norm = "post_attention_layernorm";
  model.names.feed_forward_norm = "pre_feedforward_layernorm";
  model.names.feed_forward_out_norm = "post_feedforward_layernorm";
  return model;
}

/// Reads a cap c tanh(x / c): `otherwise` where config.json lacks the field, 0 (no cap) where it is null.
double read_cap(const json_value& config, const char* field, double otherwise) {
  return config.raw().contains(field) ? config.positive(field).value_or(0) : otherwise;
}

/// Defaults of the forms of Gemma 4 for fields that config.json lacks.
struct gemma4_defaults {
  index_t context, window, per_layer;  ///< tokens, tokens, channels of per-layer embeddings
};

/// Reads the heads of layer i where they differ from config.json's top: `per_layer_config`, as transformers 5 writes
/// it, or the fields of full layers.
head_shape read_heads(const json_value& config, const decoder_description& model, std::size_t i) {
  const index_t head_dim = model.head_dim, key_heads = model.key_heads;
  if (const auto layers = config.object("per_layer_config")) {
    const auto own = layers->object(std::to_string(i).c_str());
    if (!own) return {key_heads, head_dim};
    for (const auto& [field, value] : own->raw().items())
      require(field == "head_dim" || field == "num_key_value_heads", own->where(), ": the field ", printable(field),
              " of a layer is not supported; supported: head_dim, num_key_value_heads");
    return {own->integer("num_key_value_heads", 1, 65536).value_or(key_heads),
            own->integer("head_dim", 1, 1024).value_or(head_dim)};
  }
  if (model.layers[i].window) return {key_heads, head_dim};
  const auto fewer = config.integer("num_global_key_value_heads", 1, 65536);
  return {config.boolean("attention_k_eq_v").value_or(false) ? fewer.value_or(key_heads) : key_heads,
          config.integer("global_head_dim", 1, 1024).value_or(512)};
}

/// Reads Gemma 4 without per-layer embeddings and experts. The description's heads are those of full layers.
decoder_description read_gemma4_form(const json_value& config, const gemma4_defaults& form) {
  require(config.integer("hidden_size_per_layer_input", 0, 1 << 24).value_or(form.per_layer) == 0, config.where(),
          ": hidden_size_per_layer_input is not 0: per-layer embeddings are not supported");
  require(!config.boolean("enable_moe_block").value_or(false), config.where(),
          ": enable_moe_block: experts are not supported in this family");
  require(config.integer("num_kv_shared_layers", 0, 4096).value_or(0) == 0, config.where(),
          ": num_kv_shared_layers is not 0: layers that take the keys of another are not supported");
  decoder_description model = read_gemma_shape(config, R"({"hidden_size": 2304, "intermediate_size": 9216,
      "vocab_size": 262144, "num_attention_heads": 8, "num_hidden_layers": 30, "num_key_value_heads": 4,
      "head_dim": 256, "tie_word_embeddings": true})");
  model.context = config.integer("max_position_embeddings", 1, index_t{1} << 30).value_or(form.context);
  model.norm = norm_kind::olmo;
  model.qk = qk_norm::each_head;
  model.value_norm = model.layer_factor = true;
  model.score_scale = 1;
  model.logit_cap = read_cap(config, "final_logit_softcapping", 0);
  model.prefixes = {"model.", "model.language_model.", "language_model.model."};
  const index_t window = config.integer("sliding_window", 1, index_t{1} << 30).value_or(form.window);
  const std::size_t last = model.layers.size() - 1;
  set_windows(config, model, window, [&](std::size_t i) { return i != last && (i + 1) % 6 != 0; });
  require(!model.layers.back().window, config.where(), ": the last of layer_types must be full_attention");
  const bool keys_alone = config.boolean("attention_k_eq_v").value_or(false);
  const head_shape full = read_heads(config, model, last);
  std::optional<head_shape> sliding;
  for (std::size_t i = 0; i <= last; ++i) {
    layer_description& layer = model.layers[i];
    const head_shape own = read_heads(config, model, i);
    require(model.query_heads % own.key_heads == 0, config.where(), ": num_attention_heads (", model.query_heads,
            ") must be a multiple of the ", own.key_heads, " key heads of layer ", i);
    layer.local_rope = layer.window.has_value();
    if (layer.local_rope && !sliding) sliding = own;
    require(own == (layer.local_rope ? *sliding : full), config.where(),
            ": all full layers must have the same heads, and all sliding ones");
    if (own != full) layer.heads = own;
    layer.values_of_keys = keys_alone && !layer.window;
  }
  model.key_heads = full.key_heads;
  model.head_dim = full.head_dim;
  static const nlohmann::json usual{
      {"sliding_attention", {{"rope_theta", 1e4}}},
      {"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}}}};
  const json_value ropes = config.object("rope_parameters").value_or(json_value(usual, config.where()));
  model.rope = read_rope_dictionary(config, ropes["full_attention"].object(), full.head_dim, model.context,
                                    {.may_be_partial = true});
  if (sliding)
    model.local_rope =
        read_rope_dictionary(config, ropes["sliding_attention"].object(), sliding->head_dim, model.context, {});
  return model;
}

}  // namespace

/// Reads Gemma 2: soft caps bound scores and logits; every other layer has a window.
decoder_description read_gemma2(const json_value& config) {
  decoder_description model = read_gemma_shape(config, R"({"hidden_size": 2304, "intermediate_size": 9216,
      "vocab_size": 256000, "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
      "head_dim": 256, "max_position_embeddings": 8192, "tie_word_embeddings": true})");
  model.rope = read_rope(config, model.head_dim, model.context, {});
  model.score_cap = read_cap(config, "attn_logit_softcapping", 50);
  model.logit_cap = read_cap(config, "final_logit_softcapping", 30);
  set_alternating_windows(config, model, 2);
  return model;
}

decoder_description read_gemma3_text(const json_value& config) {
  decoder_description model = read_gemma_shape(config, R"({"hidden_size": 2304, "intermediate_size": 9216,
      "vocab_size": 262208, "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
      "head_dim": 256, "max_position_embeddings": 131072, "tie_word_embeddings": true})");
  model.qk = qk_norm::each_head;
  model.logit_cap = read_cap(config, "final_logit_softcapping", 0);
  model.prefixes = {"model.", "language_model.model.", "model.language_model."};
  const index_t pattern = config.integer("sliding_window_pattern", 1, 4096).value_or(6);
  const index_t whole = index_t{1} << 30;
  set_windows(config, model, read_window(config, 4096).value_or(whole),
              [&](std::size_t i) { return static_cast<index_t>(i + 1) % pattern != 0; });
  for (layer_description& layer : model.layers) {
    layer.local_rope = layer.window.has_value();
    if (layer.window == whole) layer.window.reset();
  }
  read_ropes_by_type(config, model, config.positive("rope_theta").value_or(1e6),
                     config.positive("rope_local_base_freq").value_or(1e4));
  return model;
}

decoder_description read_gemma4_text(const json_value& config) {
  return read_gemma4_form(config, {.context = 131072, .window = 512, .per_layer = 256});
}

/// Reads Gemma 4 without encoders of images and sound.
decoder_description read_gemma4_unified_text(const json_value& config) {
  return read_gemma4_form(config, {.context = 262144, .window = 1024, .per_layer = 0});
}

}  // namespace qkgeom
