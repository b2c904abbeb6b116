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
  decoder_description model = read_common(config);
  read_attention_bias(config, model);
  model.feed_forward_bias = config.boolean("mlp_bias").value_or(false);
  return model;
}

/// Reads SmolLM3: layers with a 0 in `no_rope_layers` do not rotate; without `layer_types` these have the window.
decoder_description read_smollm3(const json_value& config) {
  decoder_description model = read_common(config, R"({"num_key_value_heads": 4, "max_position_embeddings": 32768,
          "tie_word_embeddings": true})",
                                          {.theta = 2e6});
  read_attention_bias(config, model);
  model.feed_forward_bias = config.boolean("mlp_bias").value_or(false);
  read_rotating_layers(config, model);
  set_windows(config, model, read_switched_window(config, {}), [&](std::size_t i) { return !model.layers[i].rope; });
  return model;
}

/// Reads Mistral: no biases; all layers have a window, 4096 tokens where config.json has no field for it.
decoder_description read_mistral(const json_value& config) {
  decoder_description model = read_common(config, R"({"intermediate_size": 14336, "num_key_value_heads": 8,
      "max_position_embeddings": 131072})");
  set_window(model, read_window(config, 4096));
  return model;
}

decoder_description read_ministral(const json_value& config) {
  decoder_description model = read_common(config, R"({"intermediate_size": 14336, "num_key_value_heads": 8,
      "max_position_embeddings": 131072})");
  set_windows(config, model, read_window(config, 4096), in_every_layer);
  return model;
}

const nlohmann::json& ministral3_rope() {
  static const auto released = nlohmann::json::parse(R"({"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0,
      "original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1})");
  return released;
}

/// Reads Ministral 3: YaRN; queries grow with their position.
decoder_description read_ministral3(const json_value& config) {
  decoder_description model = read_shape(config, R"({"hidden_size": 4096, "intermediate_size": 14336,
      "vocab_size": 131072, "num_attention_heads": 32, "num_hidden_layers": 34, "num_key_value_heads": 8,
      "head_dim": 128, "max_position_embeddings": 262144, "rms_norm_eps": 1e-5})");
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
  decoder_description model = read_common(config, R"({"num_key_value_heads": 32, "max_position_embeddings": 32768})");
  model.qkv_bias = true;
  read_qwen_windows(config, model);
  return model;
}

decoder_description read_qwen3(const json_value& config) {
  decoder_description model = read_common(config, R"({"num_key_value_heads": 32, "head_dim": 128,
      "max_position_embeddings": 32768})");
  read_attention_bias(config, model);
  model.qk = qk_norm::each_head;
  read_qwen_windows(config, model);
  return model;
}

decoder_description read_qwen3_moe(const json_value& config) {
  decoder_description model = read_common(config, R"({"intermediate_size": 6144, "num_key_value_heads": 4,
      "max_position_embeddings": 32768})");
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
  decoder_description model = read_common(config, R"({"hidden_size": 4096, "intermediate_size": 27648,
      "vocab_size": 155136, "num_attention_heads": 80, "num_hidden_layers": 64, "num_key_value_heads": 8,
      "head_dim": 128, "max_position_embeddings": 524288})");
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
  decoder_description model = read_common(json_value(fixed, config.where()), R"({"rms_norm_eps": 1e-5})");
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
  decoder_description model =
      read_common(json_value(named, config.where()), R"({"hidden_size": 3072, "intermediate_size": 8192,
      "vocab_size": 32064, "num_attention_heads": 32, "num_hidden_layers": 32, "max_position_embeddings": 4096,
      "rms_norm_eps": 1e-5})",
                  {.may_be_partial = true});
  model.names.stacked_qkv = "self_attn.qkv_proj";
  model.feed_forward_form = feed_forward_kind::fused_gated;
  model.names.up = "mlp.gate_up_proj";
  set_window(model, read_window(config, {}));
  return model;
}

/// Reads Llama 3.2 with images: layers that attend to an image do nothing without one.
decoder_description read_mllama_text(const json_value& config) {
  decoder_description model = read_common(config, R"({"hidden_size": 4096, "intermediate_size": 14336,
      "vocab_size": 128256, "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-5})",
                                          {.theta = 5e5});
  model.embedding_rows = model.vocabulary + 8;
  model.prefixes = wrapped_prefixes;
  nlohmann::json cross{3, 8, 13, 18, 23, 28, 33, 38};
  if (const auto* listed = config.find("cross_attention_layers")) cross = *listed;
  require(cross.is_array(), config.where(), ": cross_attention_layers must be a list");
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].skipped = std::find(cross.begin(), cross.end(), i) != cross.end();
  return model;
}

/// Reads Llama 4: three layers of four rotate, norm queries and keys after it, and attend within chunks of the
/// document; the others see all keys, and their queries grow. Experts multiply inputs by the sigmoid of their logit.
decoder_description read_llama4_text(const json_value& config) {
  decoder_description model = read_common(config, R"({"hidden_size": 5120, "intermediate_size": 8192,
      "vocab_size": 202048, "num_attention_heads": 40, "num_hidden_layers": 48, "num_key_value_heads": 8,
      "head_dim": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5})",
                                          {.theta = 5e5});
  read_attention_bias(config, model);
  model.rope.interleaved = model.rope.exact = model.rope.exact_table = true;
  model.prefixes = wrapped_prefixes;
  nlohmann::json listed = config.raw();  // an empty list counts as a missing one
  if (listed.contains("no_rope_layers") && listed["no_rope_layers"].empty()) listed.erase("no_rope_layers");
  read_rotating_layers(json_value(listed, config.where()), model);
  const auto* chunk = config.find("attention_chunk_size");
  for (layer_description& layer : model.layers)
    if (layer.rope) layer.chunk = chunk ? config["attention_chunk_size"].integer(1, index_t{1} << 30) : index_t{8192};
  if (config.boolean("use_qk_norm").value_or(true)) model.qk = qk_norm::each_rotated_head;
  const auto* tuned = config.find("attn_temperature_tuning");  // a switch; the first configurations held 4
  if (!tuned || (tuned->is_boolean() ? tuned->get<bool>() : *tuned != 0)) {
    model.growth = query_growth{config.positive("attn_scale").value_or(0.1),
                                config.integer("floor_scale", 1, index_t{1} << 30).value_or(8192)};
    model.growth_unrotated = true;
  }

  auto e = read_experts(config, "num_local_experts", 1, {.count = 16, .chosen = 1, .width = model.feed_forward});
  e.shared_width = e.width = model.feed_forward;
  e.scales_inputs = true;
  e.router = "feed_forward.router";
  e.own = "feed_forward.experts.";
  e.shared = "feed_forward.shared_expert.";
  model.feed_forward = config.integer("intermediate_size_mlp", 1, index_t{1} << 24).value_or(16384);
  model.names.gated = "feed_forward.";
  const index_t step = count_of(config, "interleave_moe_layer_step", 1);
  const auto* experts = config.find("moe_layers");
  require(!experts || experts->is_array(), config.where(), ": moe_layers must be a list");
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].experts = experts ? std::find(experts->begin(), experts->end(), i) != experts->end()
                                      : (static_cast<index_t>(i) + 1) % step == 0;
  model.experts = e;
  return model;
}

}  // namespace qkgeom
