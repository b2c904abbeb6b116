// SPDX-License-Identifier: MIT
// The table of architectures. Facts about one belong into its line, its names and its fields alone.
#include "capture/gguf/architecture.hpp"

#include <algorithm>
#include <cmath>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

constexpr tensor_names common_names[] = {{"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
                                         {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
                                         {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                                         {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
                                         {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                                         {"ffn_down", "mlp.down_proj"}};
constexpr tensor_names olmo2_names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                        {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr tensor_names gemma3_names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                         {"ffn_norm", "pre_feedforward_layernorm"},
                                         {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr tensor_names glm_names[] = {{"ffn_up", "mlp.gate_up_proj"}};
constexpr tensor_names glm4_names[] = {{"ffn_up", "mlp.gate_up_proj"},
                                       {"post_attention_norm", "post_self_attn_layernorm"},
                                       {"post_ffw_norm", "post_mlp_layernorm"}};
constexpr tensor_names qwen3moe_names[] = {{"ffn_gate_inp", "mlp.gate"},
                                           {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
                                           {"ffn_up_exps", "mlp.experts.{}.up_proj"},
                                           {"ffn_down_exps", "mlp.experts.{}.down_proj"}};
constexpr tensor_names gptneox_names[] = {{"attn_qkv", "attention.query_key_value"},
                                          {"attn_output", "attention.dense"},
                                          {"ffn_up", "mlp.dense_h_to_4h"},
                                          {"ffn_down", "mlp.dense_4h_to_h"}};

void add_gemma3(const architecture_keys& keys, json& config) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["rope_local_base_freq"] = keys.positive("rope.freq_base_swa", 10000);
  if (keys.has("attention.sliding_window")) config["sliding_window"] = keys.integer("attention.sliding_window", 0);
  if (keys.has("final_logit_softcapping")) config["final_logit_softcapping"] = keys["final_logit_softcapping"].number();
  // The model of 62 layers scales scores by its width.
  const double d = config["head_dim"], heads = config["num_attention_heads"], hidden = config["hidden_size"];
  const double scale =
      keys.positive("attention.scale", 1 / std::sqrt(config["num_hidden_layers"] == 62 ? hidden / heads : d));
  config["query_pre_attn_scalar"] = 1 / (scale * scale);
  constexpr const char* pattern = "attention.sliding_window_pattern";
  if (!keys.has(pattern)) return;
  if (!keys[pattern].raw().is_array()) {
    config["sliding_window_pattern"] = keys.integer(pattern, 6);
    return;
  }
  json types = json::array();
  for (const auto& slides : keys[pattern].raw())
    types.push_back(slides == true ? "sliding_attention" : "full_attention");
  config["layer_types"] = types;
}

/// Rotary parameters are always said: without them config.json would mean those of the released models.
void add_mistral3(const architecture_keys& keys, json& config) {
  if (!config.contains("rope_scaling")) config["rope_scaling"] = {{"rope_type", "default"}};
  if (!keys.has("attention.temperature_scale")) return;
  config["rope_scaling"]["llama_4_scaling_beta"] = keys["attention.temperature_scale"].number();
  if (keys.has("attention.temperature_length"))
    config["rope_scaling"]["original_max_position_embeddings"] = keys.integer("attention.temperature_length", 0);
}

/// Without a key for it: llama.cpp divides the chosen probabilities of every model by their sum.
void add_qwen3moe(const architecture_keys& keys, json& config) {
  config["num_experts"] = keys["expert_count"].integer(1, 4096);
  config["num_experts_per_tok"] = keys["expert_used_count"].integer(1, 4096);
  config["moe_intermediate_size"] = keys["expert_feed_forward_length"].integer(1, 1 << 24);
  config["norm_topk_prob"] = keys.has("expert_weights_norm") ? keys["expert_weights_norm"].boolean() : true;
}

void add_gptneox(const architecture_keys& keys, json& config) {
  config["hidden_act"] = "gelu";
  config["rotary_emb_base"] = config["rope_theta"];
  config["rotary_pct"] = config.value("partial_rotary_factor", 1.0);
  config["use_parallel_residual"] = keys.has("use_parallel_residual") ? keys["use_parallel_residual"].boolean() : true;
}

constexpr std::string_view gemma3_features[] = {"attention.sliding_window", "attention.sliding_window_pattern",
                                                "attention.scale", "final_logit_softcapping"};
constexpr std::string_view mistral3_features[] = {"attention.temperature_scale"};
constexpr std::string_view qwen3moe_features[] = {"expert_count"};

const gguf_architecture architectures[] = {{.name = "llama", .model_type = "llama", .pairs_rows = true},
                                           {.name = "smollm3", .model_type = "smollm3", .pairs_rows = true},
                                           {.name = "mistral3",
                                            .model_type = "ministral3",
                                            .pairs_rows = true,
                                            .features = mistral3_features,
                                            .add_fields = add_mistral3},
                                           {.name = "qwen2", .model_type = "qwen2"},
                                           {.name = "qwen3", .model_type = "qwen3"},
                                           {.name = "qwen3moe",
                                            .model_type = "qwen3_moe",
                                            .layer_names = qwen3moe_names,
                                            .features = qwen3moe_features,
                                            .add_fields = add_qwen3moe},
                                           {.name = "gemma3",
                                            .model_type = "gemma3_text",
                                            .layer_names = gemma3_names,
                                            .norms_plus_one = true,
                                            .features = gemma3_features,
                                            .add_fields = add_gemma3},
                                           {.name = "olmo2", .model_type = "olmo2", .layer_names = olmo2_names},
                                           {.name = "chatglm", .model_type = "glm", .layer_names = glm_names},
                                           {.name = "glm4", .model_type = "glm4", .layer_names = glm4_names},
                                           {.name = "gptneox",
                                            .model_type = "gpt_neox",
                                            .layer_names = gptneox_names,
                                            .embedding = "gpt_neox.embed_in",
                                            .final_norm = "gpt_neox.final_layer_norm",
                                            .output = "embed_out",
                                            .layers = "gpt_neox.layers.",
                                            .layer_norm = true,
                                            .add_fields = add_gptneox}};

/// Keys that change what a model computes where they are neither 0 nor false.
constexpr std::string_view changing_keys[] = {"attention.sliding_window",
                                              "attention.sliding_window_pattern",
                                              "attention.scale",
                                              "attention.temperature_scale",
                                              "attention.q_lora_rank",
                                              "attention.kv_lora_rank",
                                              "attn_logit_softcapping",
                                              "final_logit_softcapping",
                                              "embedding_scale",
                                              "residual_scale",
                                              "logit_scale",
                                              "expert_count",
                                              "expert_shared_count",
                                              "ssm.state_size",
                                              "full_attention_interval",
                                              "nextn_predict_layers",
                                              "rope.dimension_sections"};

}  // namespace

const gguf_architecture& find_architecture(const std::string& name, const json& metadata, const std::string& where) {
  std::string supported;
  for (const auto& a : architectures) {
    if (a.name != name) {
      supported += (supported.empty() ? "" : ", ") + std::string(a.name);
      continue;
    }
    for (const auto& key : changing_keys) {
      const auto found = metadata.find(name + '.' + std::string(key));
      const bool silent = found == metadata.end() || *found == false || (found->is_number() && *found == 0);
      require(silent || std::find(a.features.begin(), a.features.end(), key) != a.features.end(), where, ": ", name,
              '.', key, " is not supported for this architecture in GGUF");
    }
    return a;
  }
  fail(where, ": architecture '", printable(name), "' is not supported in GGUF; supported: ", supported);
}

std::string name_of_tensor(const gguf_architecture& a, std::string_view name, const std::string& where) {
  const auto ending = name.rfind('.');
  if (ending == name.npos) return {};
  const std::string_view stem = name.substr(0, ending);
  const std::string end(name.substr(ending));  // .weight or .bias
  if (stem == "token_embd") return std::string(a.embedding) + end;
  if (stem == "output_norm") return std::string(a.final_norm) + end;
  if (stem == "output") return std::string(a.output) + end;
  if (!stem.starts_with("blk.")) return {};
  const auto dot = stem.find('.', 4);
  if (dot != stem.npos)
    for (const auto& names : {a.layer_names, std::span<const tensor_names>(common_names)})
      for (const auto& [gguf, own] : names)
        if (stem.substr(dot + 1) == gguf)
          return std::string(a.layers) + std::string(stem.substr(4, dot - 4)) + '.' + std::string(own) + end;
  fail(where, ": tensor ", printable(std::string(name)), " is not supported for the architecture ", a.name, " in GGUF");
}

}  // namespace qkgeom
