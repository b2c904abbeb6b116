// SPDX-License-Identifier: MIT
// The table of architectures. Facts about one belong in its line, its names and its fields alone.
#include "capture/gguf/architecture.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

constexpr tensor_names common_names[] = {{"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
                                         {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
                                         {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                                         {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
                                         {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                                         {"ffn_down", "mlp.down_proj"}};
constexpr tensor_names post_norm_names[] = {{"post_attention_norm", "post_attention_layernorm"}};
constexpr tensor_names both_post_norms_names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                                  {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr tensor_names gemma_names[] = {{"ffn_norm", "pre_feedforward_layernorm"}};
constexpr tensor_names gemma4_names[] = {{"layer_output_scale.weight", "layer_scalar"}};
constexpr tensor_names gate_up_names[] = {{"ffn_up", "mlp.gate_up_proj"}};
constexpr tensor_names glm4_names[] = {{"post_attention_norm", "post_self_attn_layernorm"},
                                       {"post_ffw_norm", "post_mlp_layernorm"}};
constexpr tensor_names expert_names[] = {{"ffn_gate_inp", "mlp.gate"},
                                         {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
                                         {"ffn_up_exps", "mlp.experts.{}.up_proj"},
                                         {"ffn_down_exps", "mlp.experts.{}.down_proj"}};
constexpr tensor_names fused_expert_names[] = {{"ffn_gate_up_exps", "mlp.experts.{}.gate_up_proj"}};
/// Experts chosen by corrected sigmoids, and shared experts.
constexpr tensor_names sigmoid_expert_names[] = {{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
                                                 {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                                                 {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                                                 {"ffn_down_shexp", "mlp.shared_experts.down_proj"}};
constexpr tensor_names phi3_names[] = {{"attn_qkv", "self_attn.qkv_proj"}};
constexpr tensor_names hunyuan_names[] = {{"attn_q_norm", "self_attn.query_layernorm"},
                                          {"attn_k_norm", "self_attn.key_layernorm"}};
constexpr tensor_names gptoss_names[] = {{"attn_sinks.weight", "self_attn.sinks"}, {"ffn_gate_inp", "mlp.router"}};
constexpr tensor_names llama4_names[] = {{"ffn_gate", "feed_forward.gate_proj"},
                                         {"ffn_up", "feed_forward.up_proj"},
                                         {"ffn_down", "feed_forward.down_proj"},
                                         {"ffn_gate_inp", "feed_forward.router"},
                                         {"ffn_gate_exps", "feed_forward.experts.{}.gate_proj"},
                                         {"ffn_up_exps", "feed_forward.experts.{}.up_proj"},
                                         {"ffn_down_exps", "feed_forward.experts.{}.down_proj"},
                                         {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
                                         {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
                                         {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"}};
/// Qwen models with gated delta nets, dense or with experts.
constexpr tensor_names delta_names[] = {{"attn_qkv", "linear_attn.in_proj_qkv"},
                                        {"attn_gate", "linear_attn.in_proj_z"},
                                        {"ssm_beta", "linear_attn.in_proj_b"},
                                        {"ssm_alpha", "linear_attn.in_proj_a"},
                                        {"ssm_ba", "linear_attn.in_proj_ba"},
                                        {"ssm_conv1d", "linear_attn.conv1d"},
                                        {"ssm_dt.bias", "linear_attn.dt_bias"},
                                        {"ssm_a", "linear_attn.A_log"},
                                        {"ssm_norm", "linear_attn.norm"},
                                        {"ssm_out", "linear_attn.out_proj"},
                                        {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                                        {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                        {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                        {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
constexpr tensor_names state_space_names[] = {
    {"ssm_in", "mamba.in_proj"},  {"ssm_conv1d", "mamba.conv1d"}, {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_a", "mamba.A_log"},     {"ssm_d", "mamba.D"},           {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"}};
constexpr tensor_names deepseek2_names[] = {{"attn_q_a", "self_attn.q_a_proj"},
                                            {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                                            {"attn_q_b", "self_attn.q_b_proj"},
                                            {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                                            {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
                                            {"attn_kv_b", "self_attn.kv_b_proj"},
                                            {"attn_k_b", "self_attn.k_b_proj"},
                                            {"attn_v_b", "self_attn.v_b_proj"}};
constexpr tensor_names indexer_names[] = {{"indexer.attn_q_b", "self_attn.indexer.wq_b"},
                                          {"indexer.attn_k", "self_attn.indexer.wk"},
                                          {"indexer.k_norm", "self_attn.indexer.k_norm"},
                                          {"indexer.proj", "self_attn.indexer.weights_proj"}};
constexpr tensor_names gptneox_names[] = {{"attn_qkv", "attention.query_key_value"},
                                          {"attn_output", "attention.dense"},
                                          {"ffn_up", "mlp.dense_h_to_4h"},
                                          {"ffn_down", "mlp.dense_4h_to_h"}};

/// Reads a number; returns no value if it is 0 or missing.
std::optional<index_t> positive_integer(const architecture_keys& keys, const std::string& key) {
  if (!keys.has(key)) return {};
  const index_t n = keys[key].integer(0, index_t{1} << 30);
  return n > 0 ? std::optional(n) : std::nullopt;
}

/// Adds the sliding window and the layers that have it; without the key, the window is `otherwise`.
void add_windows(const architecture_keys& keys, json& config, std::optional<index_t> otherwise) {
  const auto window =
      keys.has("attention.sliding_window") ? positive_integer(keys, "attention.sliding_window") : otherwise;
  config["sliding_window"] = window ? json(*window) : json();
  constexpr const char* pattern = "attention.sliding_window_pattern";
  if (!window || !keys.has(pattern)) return;
  if (!keys[pattern].raw().is_array()) {
    config["sliding_window_pattern"] = keys[pattern].integer(1, index_t{1} << 30);
    return;
  }
  json types = json::array();
  for (const json_value& slides : keys[pattern].entries()) {
    const bool is_windowed = slides.raw().is_boolean() ? slides.boolean() : slides.integer(0, 1) == 1;
    types.push_back(is_windowed ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = types;
}

/// Adds the fields of Gemma 2 and 3. The largest model, of `layers` layers, scales scores by its width.
void add_gemma(const architecture_keys& keys, json& config, index_t layers) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (keys.has(cap)) config[cap] = keys[cap].number();
  const double d = config["head_dim"], heads = config["num_attention_heads"], hidden = config["hidden_size"];
  const double scale =
      keys.positive("attention.scale", 1 / std::sqrt(config["num_hidden_layers"] == layers ? hidden / heads : d));
  config["query_pre_attn_scalar"] = 1 / (scale * scale);
  add_windows(keys, config, 4096);
}

/// Adds the fields of Gemma 3. Files of Ollama's own converter use other names for the two bases and lack the epsilon
/// of norms and the scaling of models with 131072 tokens.
void add_gemma3(const architecture_keys& keys, json& config) {
  add_gemma(keys, config, 62);
  config["rope_theta"] = keys.positive("rope.freq_base", keys.positive("rope.global.freq_base", 1e6));
  config["rope_local_base_freq"] = keys.positive("rope.freq_base_swa", keys.positive("rope.local.freq_base", 10000));
  const bool of_ollama = !keys.has("attention.layer_norm_rms_epsilon");
  if (of_ollama && !config.contains("rope_scaling") && config["max_position_embeddings"] >= 131072)
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
}

/// Adds the window; a model with one is OLMo 3, since OLMo 2 has none.
void add_olmo2(const architecture_keys& keys, json& config) {
  add_windows(keys, config, {});
  if (!config["sliding_window"].is_null()) config["model_type"] = "olmo3";
}

/// Adds the window, which files of the model of 64 layers may lack.
void add_exaone4(const architecture_keys& keys, json& config) {
  add_windows(keys, config, config["num_hidden_layers"] == 64 ? std::optional<index_t>(4096) : std::nullopt);
}

void add_cohere2(const architecture_keys& keys, json& config) {
  add_windows(keys, config, keys["attention.sliding_window"].integer(1, index_t{1} << 30));
  config["logit_scale"] = keys["logit_scale"].positive();
}

/// Returns whether layers rotate, by the key that llama.cpp reads as a switch of the rotary embedding.
bool rotates(const architecture_keys& keys) { return keys.boolean("rope.scaling.finetuned", true); }

void add_multipliers(const architecture_keys& keys, json& config) {
  for (const auto& [key, field] : {std::pair{"attention.scale", "attention_multiplier"},
                                   {"embedding_scale", "embedding_multiplier"},
                                   {"residual_scale", "residual_multiplier"},
                                   {"logit_scale", "logits_scaling"}})
    if (keys.has(key)) config[field] = keys[key].positive();
}

void add_granite(const architecture_keys& keys, json& config) {
  require(rotates(keys), keys.where(), ": granite.rope.scaling.finetuned is false: this architecture without rotary ",
          "embedding is not supported in GGUF");
  add_multipliers(keys, config);
}

/// Adds Granite 4.0 with state spaces, in the layers that have no key heads; gate and up are apart in files.
void add_granite_hybrid(const architecture_keys& keys, json& config) {
  require(!rotates(keys), keys.where(), ": granitehybrid.rope.scaling.finetuned must be false: state spaces beside a ",
          "rotary embedding (Bamba) are not supported in GGUF");
  add_multipliers(keys, config);
  const auto number = [&](const char* key) { return keys[key].integer(1, 1 << 24); };
  const index_t inner = number("ssm.inner_size"), hidden = config["hidden_size"];
  require(inner % hidden == 0, keys.where(), ": ssm.inner_size (", inner, ") must be a multiple of embedding_length (",
          hidden, ")");
  config["mamba_expand"] = inner / hidden;
  config["mamba_n_heads"] = number("ssm.time_step_rank");
  config["mamba_n_groups"] = number("ssm.group_count");
  config["mamba_d_state"] = number("ssm.state_size");
  config["mamba_d_conv"] = number("ssm.conv_kernel");
  config["num_local_experts"] = 0;
  config["feed_forward_apart"] = true;
  config["shared_intermediate_size"] = keys.integer("expert_shared_feed_forward_length", config["intermediate_size"]);
  for (const index_t n : keys["attention.head_count_kv"].integers(0, 1 << 20))
    config["layer_types"].push_back(n == 0 ? "mamba" : "attention");
}

/// Adds the scaling by alpha. Files hold either the base after the scaling, or the base before it and alpha.
void add_hunyuan(const architecture_keys& keys, json& config) {
  constexpr const char* alpha = "rope.scaling.alpha";
  if (keys.has(alpha) && keys[alpha].number() != 0)
    config["rope_scaling"] = {{"rope_type", "dynamic"}, {"alpha", keys[alpha].positive()}};
}

/// Adds the number of experts as the field `count` and the channels of each as the field `width`.
void add_experts(const architecture_keys& keys, json& config, const char* count, const char* width) {
  config[count] = keys["expert_count"].integer(1, 4096);
  config["num_experts_per_tok"] = keys["expert_used_count"].integer(1, 4096);
  config[width] = keys["expert_feed_forward_length"].integer(1, 1 << 24);
}

/// Adds the fields of experts chosen by corrected sigmoids, after layers without experts.
void add_sigmoid_experts(const architecture_keys& keys, json& config) {
  add_experts(keys, config, "n_routed_experts", "moe_intermediate_size");
  config["first_k_dense_replace"] = positive_integer(keys, "leading_dense_block_count").value_or(0);
  config["routed_scaling_factor"] = keys.positive("expert_weights_scale", 1);
  config["norm_topk_prob"] = keys.boolean("expert_weights_norm", false);
  config["n_group"] = keys.integer("expert_group_count", 1);
}

void add_glm4moe(const architecture_keys& keys, json& config) {
  constexpr index_t sigmoid = 2;
  require(keys.integer("expert_gating_func", sigmoid) == sigmoid, keys.where(),
          ": glm4moe.expert_gating_func must be 2, a sigmoid");
  add_sigmoid_experts(keys, config);
  config["n_shared_experts"] = keys["expert_shared_count"].integer(1, 256);
}

/// Adds Ministral 3's scaling and growth. Always names rotary parameters: the defaults are the released models'.
void add_mistral3(const architecture_keys& keys, json& config) {
  if (!config.contains("rope_scaling")) config["rope_scaling"] = {{"rope_type", "default"}};
  if (!keys.has("attention.temperature_scale")) return;
  config["rope_scaling"]["llama_4_scaling_beta"] = keys["attention.temperature_scale"].number();
  if (keys.has("attention.temperature_length"))
    config["rope_scaling"]["original_max_position_embeddings"] = keys.integer("attention.temperature_length", 0);
}

/// Adds experts; without the key, llama.cpp divides the chosen probabilities by their sum.
void add_qwen3moe(const architecture_keys& keys, json& config) {
  add_experts(keys, config, "num_experts", "moe_intermediate_size");
  config["norm_topk_prob"] = keys.boolean("expert_weights_norm", true);
}

/// Adds experts, window and scaling; files do not say that YaRN's bounds are not rounded to whole dimensions.
void add_gptoss(const architecture_keys& keys, json& config) {
  add_experts(keys, config, "num_local_experts", "intermediate_size");
  add_windows(keys, config, 128);
  if (!config.contains("rope_scaling")) config["rope_scaling"] = {{"rope_type", "default"}};
  if (config["rope_scaling"]["rope_type"] == "yarn") config["rope_scaling"]["truncate"] = false;
}

/// Adds heads by layer; planes that do not rotate have a frequency divided by 1e30 (`rope_freqs.weight`).
void add_gemma4(const architecture_keys& keys, json& config) {
  config["num_kv_shared_layers"] = positive_integer(keys, "attention.shared_kv_layers").value_or(0);
  config["hidden_size_per_layer_input"] = positive_integer(keys, "embedding_length_per_layer_input").value_or(0);
  if (keys.has("final_logit_softcapping")) config["final_logit_softcapping"] = keys["final_logit_softcapping"].number();
  add_windows(keys, config, keys["attention.sliding_window"].integer(1, index_t{1} << 30));
  const json types = config.value("layer_types", json::array());
  require(!types.empty(), keys.where(), ": gemma4.attention.sliding_window_pattern must say which layers slide");
  const index_t full = config["head_dim"], sliding = keys.integer("attention.key_length_swa", full);
  const json counts = keys.has("attention.head_count_kv") ? keys["attention.head_count_kv"].raw() : json();
  require(!counts.is_array() || counts.size() == types.size(), keys.where(),
          ": gemma4.attention.head_count_kv must have a number for each layer");
  require(keys.integer("rope.dimension_count_swa", sliding) == sliding, keys.where(),
          ": gemma4.rope.dimension_count_swa must be ", sliding, ", the length of keys of sliding layers");
  require(keys.positive("attention.scale", 1) == 1, keys.where(), ": gemma4.attention.scale must be 1");
  config["head_dim"] = sliding;
  json& layers = config["per_layer_config"] = json::object();
  for (std::size_t i = 0; i < types.size(); ++i) {
    json& own = layers[std::to_string(i)];
    own["head_dim"] = types[i] == "sliding_attention" ? sliding : full;
    if (counts.is_array()) own["num_key_value_heads"] = counts[i];
  }
  if (counts.is_array()) config["num_key_value_heads"] = counts[0];
  json whole{{"rope_type", "default"}, {"rope_theta", config["rope_theta"]}};
  if (const json scaling = config.value("rope_scaling", json::object()); scaling.contains("divisors")) {
    const auto divisors = scaling["divisors"].get<std::vector<float>>();
    const auto still = std::find_if(divisors.begin(), divisors.end(), [](float d) { return d > 1e20f; });
    const auto is = [](float value) { return [value](float d) { return d == value; }; };
    require(std::all_of(divisors.begin(), still, is(1.0f)) && std::all_of(still, divisors.end(), is(1e30f)),
            keys.where(), ": rope_freqs.weight must hold 1, then 1e30");
    const double share = static_cast<double>(still - divisors.begin()) / static_cast<double>(divisors.size());
    whole["rope_type"] = "proportional";
    whole["partial_rotary_factor"] = std::min(1.0, std::nextafter(share, 1.0));  // the reader rounds pairs down
  }
  config["rope_parameters"] = {{"full_attention", whole},
                               {"sliding_attention", {{"rope_theta", keys.positive("rope.freq_base_swa", 10000)}}}};
  config.erase("rope_scaling");
  config.erase("rope_theta");
}

/// Adds experts. Files lack chunks, the growth of queries and the layers that rotate, which llama.cpp takes from the
/// released models; the one with 128 experts has no norm of queries and keys.
void add_llama4(const architecture_keys& keys, json& config) {
  constexpr const char* window = "attention.sliding_window";
  require(!keys.has(window) || positive_integer(keys, window), keys.where(), ": llama4.", window,
          " is 0: Llama 4 without chunks is not supported in GGUF");
  config["intermediate_size_mlp"] = config["intermediate_size"];
  add_experts(keys, config, "num_local_experts", "intermediate_size");
  config["interleave_moe_layer_step"] = keys["interleave_moe_layer_step"].integer(1, 4096);
  config["use_qk_norm"] = config["num_local_experts"] != 128;
}

/// Adds the fields of a delta net; its q, k, v and z are apart in files of Qwen 3 Next.
void add_delta(const architecture_keys& keys, json& config) {
  const auto number = [&](const char* key) { return keys[key].integer(1, 1 << 24); };
  const index_t heads = number("ssm.time_step_rank"), inner = number("ssm.inner_size");
  require(inner % heads == 0, keys.where(), ": ssm.inner_size (", inner, ") must be a multiple of ssm.time_step_rank (",
          heads, ")");
  config["linear_num_value_heads"] = heads;
  config["linear_value_head_dim"] = inner / heads;
  config["linear_num_key_heads"] = number("ssm.group_count");
  config["linear_key_head_dim"] = number("ssm.state_size");
  config["linear_conv_kernel_dim"] = number("ssm.conv_kernel");
  config["full_attention_interval"] = keys.integer("full_attention_interval", 4);
  config["linear_projections_apart"] = true;
  if (!keys.has("expert_count")) return;
  add_experts(keys, config, "num_experts", "moe_intermediate_size");
  config["shared_expert_intermediate_size"] =
      keys.integer("expert_shared_feed_forward_length", config["moe_intermediate_size"]);
  config["norm_topk_prob"] = keys.boolean("expert_weights_norm", true);
}

/// Adds latent attention: `_mla` keys count the model's heads, the others those of llama.cpp's own form.
void add_latent(const architecture_keys& keys, json& config) {
  const auto number = [&](const char* key) { return keys[key].integer(1, 1 << 24); };
  const index_t rotated = number("rope.dimension_count"), head = number("attention.key_length_mla");
  require(rotated < head, keys.where(), ": rope.dimension_count must be less than attention.key_length_mla, ", head);
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["q_lora_rank"] = json();
  if (const auto rank = positive_integer(keys, "attention.q_lora_rank")) config["q_lora_rank"] = *rank;
  config["kv_lora_rank"] = number("attention.kv_lora_rank");
  config["qk_rope_head_dim"] = rotated;
  config["qk_nope_head_dim"] = head - rotated;
  config["v_head_dim"] = number("attention.value_length_mla");
  config.erase("partial_rotary_factor");
  if (json& scaling = config["rope_scaling"]; scaling.contains("mscale_all_dim"))
    scaling["mscale_all_dim"] = scaling["mscale"] =
        scaling["mscale_all_dim"].get<double>() * 10;  // files store a tenth
  if (config["rope_scaling"].is_null()) config.erase("rope_scaling");
  add_sigmoid_experts(keys, config);
  config["n_shared_experts"] = keys.integer("expert_shared_count", 1);
  config["topk_group"] = keys.integer("expert_group_used_count", 1);
}

/// Adds latent attention and experts chosen by sigmoids; without the key, `otherwise` chooses them.
void add_deepseek(const architecture_keys& keys, json& config, index_t otherwise) {
  constexpr index_t sigmoid = 2;
  require(keys.integer("expert_gating_func", otherwise) == sigmoid, keys.where(),
          ": expert_gating_func must be 2, a sigmoid");
  add_latent(keys, config);
}

void add_indexed(const architecture_keys& keys, json& config, index_t otherwise) {
  add_deepseek(keys, config, otherwise);
  for (const auto& [key, field] :
       {std::pair{"head_count", "index_n_heads"}, {"key_length", "index_head_dim"}, {"top_k", "index_topk"}})
    config[field] = keys[std::string("attention.indexer.") + key].integer(1, 1 << 20);
}

/// Adds GLM 5. Files without a list have an indexer in each layer, but for GLM 5.2, known by its context, in each
/// fourth.
void add_glm_dsa(const architecture_keys& keys, json& config) {
  add_indexed(keys, config, 2);
  constexpr const char* types = "attention.indexer.types";
  if (!keys.has(types)) {
    if (config["max_position_embeddings"] >= 1048576) {
      config["index_topk_freq"] = 4;
      config["index_skip_topk_offset"] = 3;
    }
    return;
  }
  for (const json_value& own : keys[types].entries())
    config["indexer_types"].push_back(own.boolean() ? "full" : "shared");
}

/// Adds Mistral Small 4, whose files do not say that a softmax chooses experts and how queries grow: as in its release.
void add_mistral4(const architecture_keys& keys, json& config) {
  constexpr index_t softmax = 1;
  require(keys.integer("expert_gating_func", softmax) == softmax, keys.where(),
          ": mistral4.expert_gating_func must be 1, a softmax");
  add_latent(keys, config);
  require(config.contains("rope_scaling"), keys.where(), ": mistral4 needs a rotary scaling");
  config["rope_scaling"]["llama_4_scaling_beta"] = keys.positive("attention.temperature_scale", 0.1);
}

void add_gptneox(const architecture_keys& keys, json& config) {
  // Files do not say which: of the models of this architecture GPT-NeoX-20B alone has the form with tanh.
  config["hidden_act"] = config["num_hidden_layers"] == 44 && config["hidden_size"] == 6144 ? "gelu_fast" : "gelu";
  config["rotary_emb_base"] = config["rope_theta"];
  config["rotary_pct"] = config.value("partial_rotary_factor", 1.0);
  config["use_parallel_residual"] = keys.boolean("use_parallel_residual", true);
}

/// Returns a line for a Qwen model with delta nets, dense or with experts.
gguf_architecture of_qwen(std::string_view name, std::string_view type, std::string_view models, bool tiled) {
  return {.name = name,
          .model_type = type,
          .models = models,
          .layer_names = {post_norm_names, delta_names, expert_names, fused_expert_names},
          .norms_plus_one = true,
          .value_heads_tiled = tiled,
          .features = {"ssm.state_size", "full_attention_interval", "nextn_predict_layers", "rope.dimension_sections",
                       "expert_count"},
          .add_fields = add_delta};
}

/// Returns a line for a model whose indexers choose keys for latent attention.
gguf_architecture with_indexers(std::string_view name, std::string_view type, std::string_view models,
                                void (*add)(const architecture_keys&, json&)) {
  return {.name = name,
          .model_type = type,
          .models = models,
          .layer_names = {deepseek2_names, indexer_names, expert_names, sigmoid_expert_names},
          .features = {"attention.q_lora_rank", "attention.kv_lora_rank", "attention.indexer.top_k", "expert_count",
                       "expert_shared_count", "nextn_predict_layers"},
          .add_fields = add};
}

const gguf_architecture architectures[] = {
    {.name = "llama", .model_type = "llama", .models = "Llama, Mistral, SmolLM2", .pairs_rows = true},
    {.name = "smollm3", .model_type = "smollm3", .pairs_rows = true},
    {.name = "mistral3",
     .model_type = "ministral3",
     .models = "Ministral 3",
     .pairs_rows = true,
     .features = {"attention.temperature_scale"},
     .add_fields = add_mistral3},
    {.name = "qwen2", .model_type = "qwen2"},
    {.name = "qwen3", .model_type = "qwen3"},
    {.name = "qwen3moe",
     .model_type = "qwen3_moe",
     .layer_names = {expert_names},
     .features = {"expert_count"},
     .add_fields = add_qwen3moe},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .layer_names = {both_post_norms_names, gemma_names},
     .norms_plus_one = true,
     .may_lack_eps = true,
     .windowed_base = true,
     .features = {"attention.sliding_window", "attention.sliding_window_pattern", "attention.scale",
                  "final_logit_softcapping"},
     .add_fields = add_gemma3},
    {.name = "gemma2",
     .model_type = "gemma2",
     .layer_names = {both_post_norms_names, gemma_names},
     .norms_plus_one = true,
     .features = {"attention.sliding_window", "attention.sliding_window_pattern", "attention.scale",
                  "final_logit_softcapping", "attn_logit_softcapping"},
     .add_fields = [](const architecture_keys& keys, json& config) { add_gemma(keys, config, 46); }},
    {.name = "olmo2",
     .model_type = "olmo2",
     .models = "OLMo 2 and 3",
     .layer_names = {both_post_norms_names},
     .features = {"attention.sliding_window", "attention.sliding_window_pattern"},
     .add_fields = add_olmo2},
    {.name = "granite",
     .model_type = "granite",
     .pairs_rows = true,
     // Granite 4.0's files keep the sizes of state spaces that they do not have.
     .features = {"attention.scale", "embedding_scale", "residual_scale", "logit_scale", "ssm.state_size"},
     .add_fields = add_granite},
    {.name = "granitehybrid",
     .model_type = "granitemoehybrid",
     .models = "Granite 4 with state spaces",
     .layer_names = {state_space_names},
     .pairs_rows = true,
     .attends_at_times = true,
     .features = {"attention.scale", "embedding_scale", "residual_scale", "logit_scale", "ssm.state_size"},
     .add_fields = add_granite_hybrid},
    {.name = "phi3",
     .model_type = "phi3",
     .layer_names = {phi3_names, gate_up_names},
     .features = {"attention.sliding_window", "attention.sliding_window_pattern"},
     .add_fields = [](const architecture_keys& keys, json& config) { add_windows(keys, config, {}); }},
    {.name = "seed_oss", .model_type = "seed_oss", .layer_names = {post_norm_names}},
    {.name = "hunyuan-dense",
     .model_type = "hunyuan_v1_dense",
     .layer_names = {hunyuan_names},
     .add_fields = add_hunyuan},
    {.name = "exaone4",
     .model_type = "exaone4",
     .models = "EXAONE 4 and 4.5",
     .layer_names = {both_post_norms_names},
     .features = {"attention.sliding_window", "attention.sliding_window_pattern", "nextn_predict_layers"},
     .add_fields = add_exaone4},
    {.name = "cohere2",
     .model_type = "cohere2",
     .layer_norm = true,
     .features = {"attention.sliding_window", "attention.sliding_window_pattern", "logit_scale"},
     .add_fields = add_cohere2},
    {.name = "glm4moe",
     .model_type = "glm4_moe",
     .models = "GLM 4.5",
     .layer_names = {post_norm_names, expert_names, sigmoid_expert_names},
     .features = {"expert_count", "expert_shared_count", "nextn_predict_layers"},
     .add_fields = add_glm4moe},
    {.name = "chatglm", .model_type = "glm", .models = "GLM 4 of 2024", .layer_names = {gate_up_names}},
    {.name = "glm4", .model_type = "glm4", .layer_names = {gate_up_names, glm4_names}},
    {.name = "gpt-oss",
     .model_type = "gpt_oss",
     .layer_names = {post_norm_names, gptoss_names, expert_names},
     .features = {"expert_count", "attention.sliding_window", "attention.sliding_window_pattern"},
     .add_fields = add_gptoss},
    {.name = "gemma4",
     .model_type = "gemma4_text",
     .layer_names = {both_post_norms_names, gemma_names, gemma4_names},
     .windowed_base = true,
     .features = {"attention.scale", "attention.sliding_window", "attention.sliding_window_pattern",
                  "attention.key_length_swa", "attention.shared_kv_layers", "final_logit_softcapping",
                  "embedding_length_per_layer_input"},
     .add_fields = add_gemma4},
    {.name = "llama4",
     .model_type = "llama4_text",
     .layer_names = {llama4_names},
     .features = {"attention.sliding_window", "expert_count", "expert_shared_count"},
     .add_fields = add_llama4},
    of_qwen("qwen35", "qwen3_5_text", "Qwen 3.5", true),
    of_qwen("qwen35moe", "qwen3_5_moe_text", "Qwen 3.5", true),
    of_qwen("qwen3next", "qwen3_next", "", false),
    {.name = "deepseek2",
     .model_type = "deepseek_v3",
     .models = "DeepSeek V3",
     .layer_names = {deepseek2_names, expert_names, fused_expert_names, sigmoid_expert_names},
     .features = {"attention.q_lora_rank", "attention.kv_lora_rank", "expert_count", "expert_shared_count",
                  "nextn_predict_layers"},
     .add_fields = [](const architecture_keys& keys, json& config) { add_deepseek(keys, config, 1); }},
    with_indexers("deepseek32", "deepseek_v32", "DeepSeek V3.2",
                  [](const architecture_keys& keys, json& config) { add_indexed(keys, config, 1); }),
    with_indexers("glm-dsa", "glm_moe_dsa", "GLM 5", add_glm_dsa),
    {.name = "mistral4",
     .model_type = "mistral4",
     .models = "Mistral Small 4",
     .layer_names = {deepseek2_names, expert_names, fused_expert_names, sigmoid_expert_names},
     .features = {"attention.q_lora_rank", "attention.kv_lora_rank", "attention.temperature_scale", "expert_count",
                  "expert_shared_count"},
     .add_fields = add_mistral4},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .models = "Pythia",
     .layer_names = {gptneox_names},
     .embedding = "gpt_neox.embed_in",
     .final_norm = "gpt_neox.final_layer_norm",
     .output = "embed_out",
     .layers = "gpt_neox.layers.",
     .layer_norm = true,
     .add_fields = add_gptneox}};

}  // namespace

std::span<const gguf_architecture> gguf_architectures() { return architectures; }

const gguf_architecture& find_architecture(const std::string& name, const json& metadata, const std::string& where) {
  std::string supported;
  for (const auto& a : architectures) {
    if (a.name != name) {
      supported += (supported.empty() ? "" : ", ") + std::string(a.name);
      continue;
    }
    for (const auto& other : architectures)
      for (const auto& key : other.features) {
        const auto found = metadata.find(name + '.' + std::string(key));
        const bool silent = found == metadata.end() || *found == false || (found->is_number() && *found == 0);
        require(silent || std::find(a.features.begin(), a.features.end(), key) != a.features.end(), where, ": ", name,
                '.', key, " is not supported for this architecture in GGUF");
      }
    const auto base = metadata.find(name + ".rope.freq_base"), windowed = metadata.find(name + ".rope.freq_base_swa");
    require(windowed == metadata.end() || a.windowed_base || (base != metadata.end() && *base == *windowed), where,
            ": ", name,
            ".rope.freq_base_swa, another base than rope.freq_base, is not supported for this architecture in GGUF");
    return a;
  }
  fail(where, ": architecture '", printable(name), "' is not supported in GGUF; supported: ", supported);
}

std::string name_of_tensor(const gguf_architecture& a, std::string_view name, const std::string& where) {
  const auto unsupported = [&](const std::string& why) {
    fail(where, ": tensor ", printable(std::string(name)), why, " is not supported for the architecture ", a.name,
         " in GGUF");
  };
  const auto ending = name.rfind('.');
  if (ending == name.npos) return {};
  const std::string_view stem = name.substr(0, ending);
  const std::string end(name.substr(ending));
  const auto ended = [&](std::string_view own) {
    if (end != ".weight" && end != ".bias") unsupported(", with this ending,");
    return std::string(own) + end;
  };
  if (stem == "token_embd") return ended(a.embedding);
  if (stem == "output_norm") return ended(a.final_norm);
  if (stem == "output") return ended(a.output);
  if (!stem.starts_with("blk.")) return {};
  if (const auto dot = name.find('.', 4); dot != name.npos) {
    const std::string layer = std::string(a.layers) + std::string(stem.substr(4, dot - 4)) + '.';
    auto layer_names = a.layer_names;
    layer_names.push_back(common_names);
    for (const auto& names : layer_names)
      for (const auto& [gguf, own] : names) {
        if (name.substr(dot + 1) == gguf) return layer + std::string(own);
        if (dot < stem.size() && stem.substr(dot + 1) == gguf) return layer + ended(own);
      }
  }
  unsupported("");
  return {};
}

}  // namespace qkgeom
