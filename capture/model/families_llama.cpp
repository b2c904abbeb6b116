// SPDX-License-Identifier: MIT
// Llama and the families that differ from it by switches.
#include <algorithm>
#include <cmath>

#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

constexpr auto in_every_layer = [](std::size_t) { return true; };

}  // namespace

decoder_description read_llama(const json_value& config) {
  decoder_description model = read_common(config, {});
  read_attention_bias(config, model);
  model.feed_forward_bias = config.boolean("mlp_bias").value_or(false);
  return model;
}

/// Reads SmolLM3: layers with a 0 in `no_rope_layers` do not rotate; without `layer_types` these have the window.
decoder_description read_smollm3(const json_value& config) {
  decoder_description model =
      read_common(config, {.key_heads = 4, .context = 32768, .tied = true, .rope = {.theta = 2e6}});
  read_attention_bias(config, model);
  model.feed_forward_bias = config.boolean("mlp_bias").value_or(false);
  read_rotating_layers(config, model);
  set_windows(config, model, read_switched_window(config, {}), [&](std::size_t i) { return !model.layers[i].rope; });
  return model;
}

/// Reads Mistral: no biases; all layers have a window, 4096 tokens where config.json has no field for it.
decoder_description read_mistral(const json_value& config) {
  decoder_description model = read_common(config, {.feed_forward = 14336, .key_heads = 8, .context = 131072});
  set_window(model, read_window(config, 4096));
  return model;
}

decoder_description read_ministral(const json_value& config) {
  decoder_description model = read_common(config, {.feed_forward = 14336, .key_heads = 8, .context = 131072});
  set_windows(config, model, read_window(config, 4096), in_every_layer);
  return model;
}

const nlohmann::json& ministral3_rope() {
  static const nlohmann::json released{{"rope_type", "yarn"},
                                       {"rope_theta", 1e6},
                                       {"factor", 16.0},
                                       {"original_max_position_embeddings", 16384},
                                       {"mscale", 1.0},
                                       {"mscale_all_dim", 1.0},
                                       {"llama_4_scaling_beta", 0.1}};
  return released;
}

/// Reads Ministral 3: YaRN; queries grow with their position.
decoder_description read_ministral3(const json_value& config) {
  const family_defaults defaults{.hidden = 4096,
                                 .feed_forward = 14336,
                                 .vocabulary = 131072,
                                 .query_heads = 32,
                                 .layers = 34,
                                 .key_heads = 8,
                                 .head_dim = 128,
                                 .context = 262144,
                                 .norm_eps = 1e-5};
  decoder_description model = read_shape(config, defaults);
  model.act = read_activation(config, "hidden_act", "silu");
  auto dictionary = rope_dictionary(config);
  if (!dictionary) dictionary = json_value(ministral3_rope(), config.where() + ": rope_parameters");
  model.rope = read_rope_dictionary(config, dictionary, model.head_dim, model.context,
                                    {.theta = config.positive("rope_theta").value_or(1e4)});
  model.growth = read_growth(config, *dictionary, model.context);
  set_window(model, read_window(config, {}));
  return model;
}

decoder_description read_mistral3_text(const json_value& config) {
  const std::string type = config["model_type"].string();
  require(type == "ministral3" || type == "mistral" || type == "mistral4", config.where(), ": model_type '",
          printable(type), "' is not supported inside mistral3; supported: ministral3, mistral, mistral4");
  require(type == "mistral4" || !config.find("kv_lora_rank"), config.where(),
          ": the field kv_lora_rank does not belong to model_type ", type);
  decoder_description model = type == "ministral3" ? read_ministral3(config)
                              : type == "mistral4" ? read_mistral4(config)
                                                   : read_mistral(config);
  model.tied = config.boolean("tie_word_embeddings").value_or(true);
  return model;
}

namespace {

/// Reads the windows of Qwen 2 and 3: with `use_sliding_window`, layers from max_window_layers on have one.
void read_qwen_windows(const json_value& config, decoder_description& model) {
  const index_t first = config.integer("max_window_layers", 0, 65536).value_or(28);
  set_windows(config, model, read_switched_window(config, 4096),
              [&](std::size_t i) { return static_cast<index_t>(i) >= first; });
}

}  // namespace

decoder_description read_qwen2(const json_value& config) {
  decoder_description model = read_common(config, {.key_heads = 32, .context = 32768});
  model.qkv_bias = true;
  read_qwen_windows(config, model);
  return model;
}

decoder_description read_qwen3(const json_value& config) {
  decoder_description model = read_common(config, {.key_heads = 32, .head_dim = 128, .context = 32768});
  read_attention_bias(config, model);
  model.qk = qk_norm::each_head;
  read_qwen_windows(config, model);
  return model;
}

decoder_description read_qwen3_moe(const json_value& config) {
  decoder_description model = read_common(config, {.feed_forward = 6144, .key_heads = 4, .context = 32768});
  read_attention_bias(config, model);
  model.qk = qk_norm::each_head;
  set_window(model, read_switched_window(config, 4096));

  const auto e = read_experts(config, "num_experts", 0, {.count = 128, .chosen = 8, .width = 768, .normalised = false});
  model.experts = e;
  set_sparse_layers(config, model);
  return model;
}

/// Reads Granite: the config's multipliers scale embeddings, scores, residual additions and logits.
decoder_description read_granite(const json_value& config) {
  decoder_description model = read_llama(config);
  const auto multiplier = [&](const char* name) { return config.positive(name).value_or(1); };
  model.embedding_scale = multiplier("embedding_multiplier");
  model.residual_scale = multiplier("residual_multiplier");
  model.score_scale = multiplier("attention_multiplier");
  model.logit_scale = 1 / multiplier("logits_scaling");
  return model;
}

/// Reads Granite 4.0 without experts, whose feed-forward is named `shared_mlp`; layers may be state spaces.
decoder_description read_granite_hybrid(const json_value& config) {
  nlohmann::json dense = config.raw();
  dense["intermediate_size"] = config.integer("shared_intermediate_size", 1, index_t{1} << 24).value_or(1024);
  dense.erase("mlp_bias");
  decoder_description model = read_granite(json_value(dense, config.where()));
  require(config.integer("num_local_experts", 0, 65536).value_or(8) == 0, config.where(),
          ": num_local_experts is not 0: experts are not supported in this family");
  const auto* types = layer_list(config, "layer_types", model.layers.size());
  require(types, config.where(), ": this family needs layer_types");
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].delta = (*types)[i] == "mamba" || (*types)[i] == "linear_attention";
  if (std::any_of(model.layers.begin(), model.layers.end(), [](const auto& l) { return l.delta; }))
    model.delta = read_state_space(config, model);
  const std::string embedding = config.string("position_embedding_type").value_or("nope");
  require(embedding == "rope" || embedding == "nope", config.where(), ": position_embedding_type '",
          printable(embedding), "' is not supported; supported: rope, nope");
  for (layer_description& layer : model.layers) layer.rope = embedding == "rope";
  if (config.boolean("feed_forward_apart").value_or(false)) return model;  // set by the GGUF reader
  model.feed_forward_form = feed_forward_kind::fused_gated;
  model.names.up = "shared_mlp.input_linear";
  model.names.down = "shared_mlp.output_linear";
  return model;
}

decoder_description read_seed_oss(const json_value& config) {
  decoder_description model = read_common(config, {.hidden = 4096,
                                                   .feed_forward = 27648,
                                                   .vocabulary = 155136,
                                                   .query_heads = 80,
                                                   .layers = 64,
                                                   .key_heads = 8,
                                                   .head_dim = 128,
                                                   .context = 524288});
  model.qkv_bias = config.boolean("attention_bias").value_or(true);
  model.output_bias = config.boolean("attention_out_bias").value_or(false);
  model.feed_forward_bias = config.boolean("mlp_bias").value_or(false);
  return model;
}

/// Reads HunYuan: queries and keys are normed after the rotation. A "dynamic" scaling with `alpha` means a larger base
/// for documents of every length.
decoder_description read_hunyuan(const json_value& config) {
  nlohmann::json fixed = config.raw();
  double alpha = 1;
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto given = config.object(name);
    if (!given || given->raw().empty()) continue;
    const std::string type = given->string("rope_type").value_or(given->string("type").value_or("default"));
    if (type != "dynamic" || given->number("alpha").value_or(0) == 0) break;
    alpha = (*given)["alpha"].positive();
    fixed[name]["rope_type"] = "default";
    break;
  }
  decoder_description model = read_common(json_value(fixed, config.where()), {.norm_eps = 1e-5});
  if (const auto d = static_cast<double>(model.rope.rotary_dim); alpha != 1) {
    require(d > 2, config.where(), ": a scaling by alpha needs more than one rotated pair");
    model.rope.type = "alpha";
    model.rope.theta *= std::pow(alpha, d / (d - 2));
    model.rope.inv_freq = default_frequencies(model.rope.theta, model.rope.rotary_dim);
  }
  read_attention_bias(config, model);
  model.qk = qk_norm::each_head_after_rotation;
  model.names.q_norm = "self_attn.query_layernorm";
  model.names.k_norm = "self_attn.key_layernorm";
  return model;
}

/// Reads Phi 3 and 4 mini: q, k, v are one matrix, gate and up another; scaling by "longrope" (older: "su", "yarn").
decoder_description read_phi3(const json_value& config) {
  nlohmann::json named = config.raw();
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (const auto given = config.object(name); !given || !given->find("long_factor")) continue;
    for (const char* type : {"type", "rope_type"})
      if (const auto given = config.object(name)->string(type); given == "su" || given == "yarn")
        named[name][type] = "longrope";
  }
  if (!config.find("original_max_position_embeddings")) {
    const auto given = rope_dictionary(config);
    if (!given || !given->find("original_max_position_embeddings")) named["original_max_position_embeddings"] = 4096;
  }
  decoder_description model = read_common(json_value(named, config.where()), {.hidden = 3072,
                                                                              .feed_forward = 8192,
                                                                              .vocabulary = 32064,
                                                                              .query_heads = 32,
                                                                              .layers = 32,
                                                                              .context = 4096,
                                                                              .norm_eps = 1e-5,
                                                                              .rope = {.may_be_partial = true}});
  model.names.stacked_qkv = "self_attn.qkv_proj";
  model.feed_forward_form = feed_forward_kind::fused_gated;
  model.names.up = "mlp.gate_up_proj";
  set_window(model, read_window(config, {}));
  return model;
}

/// Reads Llama 3.2 with images: layers that attend to an image do nothing without one.
decoder_description read_mllama_text(const json_value& config) {
  const family_defaults defaults{.hidden = 4096,
                                 .feed_forward = 14336,
                                 .vocabulary = 128256,
                                 .query_heads = 32,
                                 .layers = 40,
                                 .key_heads = 8,
                                 .context = 131072,
                                 .norm_eps = 1e-5,
                                 .rope = {.theta = 5e5}};
  decoder_description model = read_common(config, defaults);
  model.embedding_rows = model.vocabulary + 8;
  model.prefixes = wrapped_prefixes;
  nlohmann::json cross{3, 8, 13, 18, 23, 28, 33, 38};
  if (const auto* listed = config.find("cross_attention_layers")) cross = *listed;
  require(cross.is_array(), config.where(), ": cross_attention_layers must be a list");
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].skipped = std::find(cross.begin(), cross.end(), i) != cross.end();
  return model;
}

}  // namespace qkgeom
