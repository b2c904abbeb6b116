// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/capture/gguf/written_gguf.hpp"

namespace qkgeom::test {

/// By transformers' names of a layer's tensors, those of GGUF; without .weight or .bias where both end alike.
inline const std::map<std::string, std::string> gguf_names{{"input_layernorm", "attn_norm"},
                                                           {"self_attn.q_proj", "attn_q"},
                                                           {"self_attn.k_proj", "attn_k"},
                                                           {"self_attn.v_proj", "attn_v"},
                                                           {"self_attn.o_proj", "attn_output"},
                                                           {"self_attn.qkv_proj", "attn_qkv"},
                                                           {"self_attn.q_norm", "attn_q_norm"},
                                                           {"self_attn.k_norm", "attn_k_norm"},
                                                           {"self_attn.query_layernorm", "attn_q_norm"},
                                                           {"self_attn.key_layernorm", "attn_k_norm"},
                                                           {"self_attn.q_a_proj", "attn_q_a"},
                                                           {"self_attn.q_a_layernorm", "attn_q_a_norm"},
                                                           {"self_attn.q_b_proj", "attn_q_b"},
                                                           {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
                                                           {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
                                                           {"self_attn.kv_b_proj", "attn_kv_b"},
                                                           {"self_attn.sinks", "attn_sinks.weight"},
                                                           {"post_attention_layernorm", "ffn_norm"},
                                                           {"pre_feedforward_layernorm", "ffn_norm"},
                                                           {"post_feedforward_layernorm", "post_ffw_norm"},
                                                           {"post_self_attn_layernorm", "post_attention_norm"},
                                                           {"post_mlp_layernorm", "post_ffw_norm"},
                                                           {"mlp.gate_proj", "ffn_gate"},
                                                           {"mlp.up_proj", "ffn_up"},
                                                           {"mlp.gate_up_proj", "ffn_up"},
                                                           {"mlp.down_proj", "ffn_down"},
                                                           {"mlp.gate", "ffn_gate_inp"},
                                                           {"mlp.router", "ffn_gate_inp"},
                                                           {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
                                                           {"mlp.experts.gate_proj", "ffn_gate_exps"},
                                                           {"mlp.experts.up_proj", "ffn_up_exps"},
                                                           {"mlp.experts.down_proj", "ffn_down_exps"},
                                                           {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
                                                           {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
                                                           {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
                                                           {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                                                           {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                                                           {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                                                           {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
                                                           {"feed_forward.gate_proj", "ffn_gate"},
                                                           {"feed_forward.up_proj", "ffn_up"},
                                                           {"feed_forward.down_proj", "ffn_down"},
                                                           {"feed_forward.router", "ffn_gate_inp"},
                                                           {"feed_forward.experts.gate_proj", "ffn_gate_exps"},
                                                           {"feed_forward.experts.up_proj", "ffn_up_exps"},
                                                           {"feed_forward.experts.down_proj", "ffn_down_exps"},
                                                           {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                                                           {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                                                           {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
                                                           {"linear_attn.in_proj_qkv", "attn_qkv"},
                                                           {"linear_attn.in_proj_z", "attn_gate"},
                                                           {"linear_attn.in_proj_b", "ssm_beta"},
                                                           {"linear_attn.in_proj_a", "ssm_alpha"},
                                                           {"linear_attn.in_proj_ba", "ssm_ba"},
                                                           {"linear_attn.conv1d", "ssm_conv1d"},
                                                           {"linear_attn.dt_bias", "ssm_dt.bias"},
                                                           {"linear_attn.A_log", "ssm_a"},
                                                           {"linear_attn.norm", "ssm_norm"},
                                                           {"linear_attn.out_proj", "ssm_out"},
                                                           {"attention.query_key_value", "attn_qkv"},
                                                           {"attention.dense", "attn_output"},
                                                           {"mlp.dense_h_to_4h", "ffn_up"},
                                                           {"mlp.dense_4h_to_h", "ffn_down"},
                                                           {"layer_scalar", "layer_output_scale.weight"}};

inline bool is_any(std::string_view architecture, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), architecture) != names.end();
}

/// Whether an architecture has gated delta nets.
inline bool has_delta(const std::string& architecture) {
  return is_any(architecture, {"qwen35", "qwen35moe", "qwen3next"});
}

inline std::string gguf_name(const std::string& architecture, const std::string& name) {
  const auto dot = name.rfind('.');
  const std::string stem = name.substr(0, dot), end = name.substr(dot);
  if (stem == "model.embed_tokens" || stem == "gpt_neox.embed_in") return "token_embd" + end;
  if (stem == "model.norm" || stem == "gpt_neox.final_layer_norm") return "output_norm" + end;
  if (stem == "lm_head" || stem == "embed_out") return "output" + end;
  const auto layer = name.find(".layers.") + 8, after = name.find('.', layer);
  const std::string block = "blk." + name.substr(layer, after - layer) + '.', own = name.substr(after + 1);
  if (gguf_names.contains(own)) return block + gguf_names.at(own);
  const bool post_norm = has_delta(architecture) || is_any(architecture, {"olmo2", "gemma2", "gemma3", "gemma4",
                                                                          "exaone4", "seed_oss", "gpt-oss", "glm4moe"});
  if (own == "post_attention_layernorm.weight" && post_norm) return block + "post_attention_norm.weight";
  if (const auto found = gguf_names.find(own.substr(0, own.rfind('.'))); found != gguf_names.end())
    return block + found->second + end;
  throw std::runtime_error("no GGUF name of " + name);
}

/// The keys that the converter writes for a config.json.
inline std::vector<std::pair<std::string, json>> converted_keys(const json& config, const std::string& architecture) {
  const index_t heads = config["num_attention_heads"], hidden = config["hidden_size"];
  const bool latent = architecture == "deepseek2", by_layer = config.contains("per_layer_config");
  const json wide = by_layer ? config["per_layer_config"].begin().value() : json::object();
  const index_t d = latent     ? config["kv_lora_rank"].get<index_t>() + config["qk_rope_head_dim"].get<index_t>()
                    : by_layer ? wide["head_dim"].get<index_t>()
                               : config.value("head_dim", hidden / heads);
  const json none = json::object();
  const json rope = config.value("rope_parameters", none), full = rope.value("full_attention", rope);
  std::vector<std::pair<std::string, json>> keys{{"general.architecture", architecture}};
  const auto add = [&](const std::string& key, const json& value) {
    keys.emplace_back(architecture + '.' + key, value);
  };
  // The converter counts the layers behind the last, which predict several tokens.
  const index_t behind = architecture == "glm4moe" ? config["num_nextn_predict_layers"].get<index_t>() : 0;
  add("block_count", config["num_hidden_layers"].get<index_t>() + behind);
  add("context_length", config["max_position_embeddings"]);
  add("embedding_length", hidden);
  if (architecture != "qwen35moe")
    add("feed_forward_length", config.value("intermediate_size_mlp", config["intermediate_size"]));
  add("attention.head_count", heads);
  if (!by_layer) add("attention.head_count_kv", latent ? json(1) : config.value("num_key_value_heads", json(heads)));
  add("attention.key_length", d);
  const double theta = full.value("rope_theta", config.value("rope_theta", 10000.0)), width = static_cast<double>(d);
  add("rope.freq_base", theta * std::pow(full.value("alpha", 1.0), width / (width - 2)));
  const double turned = by_layer ? width : width * full.value("partial_rotary_factor", 1.0);
  add("rope.dimension_count", latent ? config["qk_rope_head_dim"].get<index_t>() : static_cast<index_t>(turned));
  if (config.contains("layer_norm_eps"))
    add("attention.layer_norm_epsilon", config["layer_norm_eps"].get<double>());
  else
    add("attention.layer_norm_rms_epsilon", config["rms_norm_eps"].get<double>());
  const std::string scaling = full.value("rope_type", "default");
  if (scaling == "linear" || scaling == "yarn") {
    add("rope.scaling.type", scaling);
    add("rope.scaling.factor", full["factor"].get<double>());
  }
  if (scaling == "yarn") add("rope.scaling.original_context_length", full["original_max_position_embeddings"]);
  if (architecture == "mistral3") {
    add("rope.scaling.yarn_log_multiplier", full["mscale_all_dim"].get<double>());
    add("attention.temperature_scale", full["llama_4_scaling_beta"].get<double>());
  }
  if (is_any(architecture, {"gemma2", "gemma3", "exaone4", "cohere2", "phi3", "gpt-oss"}) ||
      (architecture == "olmo2" && config["model_type"] == "olmo3"))
    add("attention.sliding_window", config["sliding_window"].is_null() ? json(0) : config["sliding_window"]);
  if (is_any(architecture, {"gemma3", "exaone4", "cohere2", "olmo2"}) && config.contains("layer_types")) {
    json slides = json::array();
    for (const auto& type : config["layer_types"]) slides.push_back(type == "sliding_attention");
    add("attention.sliding_window_pattern", slides);
  }
  if (is_any(architecture, {"gemma2", "gemma3"}))
    add("attention.scale", 1 / std::sqrt(config["query_pre_attn_scalar"].get<double>()));
  if (architecture == "gemma3") add("rope.freq_base_swa", rope["sliding_attention"]["rope_theta"].get<double>());
  if (architecture == "gemma2")
    for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) add(cap, config[cap].get<double>());
  if (architecture == "cohere2") add("logit_scale", config["logit_scale"].get<double>());
  if (architecture == "granite") {
    add("attention.scale", config["attention_multiplier"].get<double>());
    add("embedding_scale", config["embedding_multiplier"].get<double>());
    add("residual_scale", config["residual_multiplier"].get<double>());
    add("logit_scale", config["logits_scaling"].get<double>());
  }
  if (architecture == "phi3") {
    add("rope.scaling.original_context_length", full["original_max_position_embeddings"]);
    const double original = full["original_max_position_embeddings"], whole = config["max_position_embeddings"];
    add("rope.scaling.attn_factor", std::sqrt(1 + std::log(whole / original) / std::log(original)));
  }
  if (config.contains("num_experts_per_tok")) {
    for (const char* count : {"n_routed_experts", "num_experts", "num_local_experts"})
      if (config.contains(count)) add("expert_count", config[count]);
    add("expert_used_count", config["num_experts_per_tok"]);
    add("expert_feed_forward_length", config.value("moe_intermediate_size", config["intermediate_size"]));
  }
  if (architecture == "glm4moe" || architecture == "deepseek2") {
    add("expert_shared_count", config["n_shared_experts"]);
    add("leading_dense_block_count", config["first_k_dense_replace"]);
    add("expert_gating_func", 2);
    add("expert_weights_scale", config["routed_scaling_factor"].get<double>());
    add("expert_weights_norm", config["norm_topk_prob"]);
    add("expert_group_count", config["n_group"]);
  }
  if (architecture == "glm4moe") add("nextn_predict_layers", behind);
  if (by_layer) {
    json counts = json::array(), slides = json::array();
    for (const auto& type : config["layer_types"]) {
      slides.push_back(type == "sliding_attention");
      counts.push_back(slides.back() == true ? config["num_key_value_heads"] : wide["num_key_value_heads"]);
    }
    add("attention.head_count_kv", counts);
    add("attention.sliding_window_pattern", slides);
    add("attention.sliding_window", config["sliding_window"]);
    add("attention.key_length_swa", config["head_dim"]);
    add("attention.value_length_swa", config["head_dim"]);
    add("rope.dimension_count_swa", config["head_dim"]);
    add("attention.value_length", d);
    add("attention.shared_kv_layers", 0);
    add("embedding_length_per_layer_input", 0);
    add("final_logit_softcapping", config["final_logit_softcapping"].get<double>());
    add("rope.freq_base_swa", rope["sliding_attention"]["rope_theta"].get<double>());
  }
  if (architecture == "llama4") add("interleave_moe_layer_step", config["interleave_moe_layer_step"]);
  if (has_delta(architecture)) {
    add("ssm.conv_kernel", config["linear_conv_kernel_dim"]);
    add("ssm.state_size", config["linear_key_head_dim"]);
    add("ssm.group_count", config["linear_num_key_heads"]);
    add("ssm.time_step_rank", config["linear_num_value_heads"]);
    add("ssm.inner_size",
        config["linear_value_head_dim"].get<index_t>() * config["linear_num_value_heads"].get<index_t>());
    add("full_attention_interval", 2);  // of the fixtures
    add("rope.dimension_sections", json{2, 1, 1, 0});
    if (architecture != "qwen35") add("expert_shared_feed_forward_length", config["shared_expert_intermediate_size"]);
  }
  if (latent) {
    if (!config["q_lora_rank"].is_null()) add("attention.q_lora_rank", config["q_lora_rank"]);
    add("attention.kv_lora_rank", config["kv_lora_rank"]);
    add("attention.value_length", config["kv_lora_rank"]);
    add("attention.key_length_mla",
        config["qk_nope_head_dim"].get<index_t>() + config["qk_rope_head_dim"].get<index_t>());
    add("attention.value_length_mla", config["v_head_dim"]);
    if (full.contains("mscale_all_dim"))
      add("rope.scaling.yarn_log_multiplier", full["mscale_all_dim"].get<double>() / 10);
    add("expert_group_used_count", config["topk_group"]);
  }
  if (architecture == "gptneox") add("use_parallel_residual", config["use_parallel_residual"]);
  return keys;
}

/// Where the converter puts row `r` of a tensor of `rows` rows.
inline index_t converted_row(const std::string& architecture, const std::string& name, const json& config, index_t rows,
                             index_t r) {
  const auto is = [&](std::string_view part) { return name.find(part) != name.npos; };
  const index_t heads = config["num_attention_heads"];
  if (is("query_key_value")) {
    const index_t d = rows / (3 * heads), h = r / (3 * d), kind = r % (3 * d) / d;
    return kind * heads * d + h * d + r % d;
  }
  if (architecture.starts_with("qwen35") && is("linear_attn.") && !is(".norm.") && !is(".out_proj.")) {
    // Value head v of key head k becomes head k of the v-th round.
    const index_t keys = config["linear_num_key_heads"], values = config["linear_num_value_heads"];
    const index_t before =
        is("in_proj_qkv") || is("conv1d") ? 2 * keys * config["linear_key_head_dim"].get<index_t>() : 0;
    const index_t d = (rows - before) / values, head = (r - before) / d, group = values / keys;
    return r < before ? r : before + (head % group * keys + head / group) * d + (r - before) % d;
  }
  const bool pairs = is_any(architecture, {"llama", "smollm3", "mistral3", "granite"});
  if (!pairs || !(is("q_proj") || is("k_proj"))) return r;
  const index_t d = rows / (is("q_proj") ? heads : config["num_key_value_heads"].get<index_t>()), j = r % d;
  return r - j + (j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1);
}

/// The type of a matrix with rows of this length.
inline std::string type_of_rows(const std::string& type, index_t width) {
  return width % 32 == 0 || type == "F32" ? type : "F16";
}

/// Qwen 3 Next's matrix of q, k, v and z becomes one of q, k, v and one of z, each by kind. False: another tensor.
inline bool split_delta_inputs(written_gguf& w, const std::string& architecture, const checkpoint& weights,
                               const json& config, const tensor_entry& t, const std::string& type) {
  const auto at = t.name.find("in_proj_qkvz");
  if (at == t.name.npos) return false;
  const index_t keys = config["linear_num_key_heads"], d = config["linear_key_head_dim"], width = t.shape[1];
  const index_t group = config["linear_num_value_heads"].get<index_t>() / keys;
  const index_t values = group * config["linear_value_head_dim"].get<index_t>();
  std::vector<float> all(static_cast<std::size_t>(t.shape[0] * width));
  weights.read(t.name, t.shape, 0, t.shape[0], false, all.data());
  const auto take = [&](written_gguf::tensor& to, index_t first, index_t rows) {
    for (index_t k = 0; k < keys; ++k) {
      const float* const from = &all[(k * 2 * (d + values) + first) * width];
      to.values.insert(to.values.end(), from, from + rows * width);
    }
    to.shape = {static_cast<index_t>(to.values.size()) / width, width};
  };
  written_gguf::tensor qkv{gguf_name(architecture, t.name.substr(0, at) + "in_proj_qkv.weight"), {}, {}, {}};
  written_gguf::tensor z{gguf_name(architecture, t.name.substr(0, at) + "in_proj_z.weight"), {}, {}, {}};
  take(qkv, 0, d);
  take(qkv, d, d);
  take(qkv, 2 * d, values);
  take(z, 2 * d + values, values);
  for (auto* x : {&qkv, &z}) {
    x->type = type_of_rows(type, width);
    w.tensors.push_back(std::move(*x));
  }
  return true;
}

/// The matrix of keys and values of latent attention becomes one of keys, head by head input by output, and one of
/// values; in older files, of queries without short rows here, it stays. False: another tensor.
inline bool split_latent(written_gguf& w, const std::string& architecture, const checkpoint& weights,
                         const json& config, const tensor_entry& t, const std::string& type) {
  const auto at = t.name.find("kv_b_proj.weight");
  if (architecture != "deepseek2" || at == t.name.npos || config["q_lora_rank"].is_null()) return false;
  const index_t plain = config["qk_nope_head_dim"], value = config["v_head_dim"], rank = t.shape[1];
  const index_t heads = t.shape[0] / (plain + value);
  std::vector<float> all(static_cast<std::size_t>(t.shape[0] * rank));
  weights.read(t.name, t.shape, 0, t.shape[0], false, all.data());
  const std::string layer = gguf_name(architecture, t.name), before = layer.substr(0, layer.find("attn_kv_b"));
  written_gguf::tensor k{before + "attn_k_b.weight", {heads, rank, plain}, type_of_rows(type, plain), {}};
  written_gguf::tensor v{before + "attn_v_b.weight", {heads, value, rank}, type_of_rows(type, rank), {}};
  for (index_t h = 0; h < heads; ++h) {
    const float* const head = &all[h * (plain + value) * rank];
    for (index_t c = 0; c < rank; ++c)
      for (index_t r = 0; r < plain; ++r) k.values.push_back(head[r * rank + c]);
    v.values.insert(v.values.end(), head + plain * rank, head + (plain + value) * rank);
  }
  w.tensors.push_back(std::move(k));
  w.tensors.push_back(std::move(v));
  return true;
}

/// A model's folder as llama.cpp's converter writes it: matrices in `type` (F16 where their rows are no whole blocks),
/// the rest in F32. `of_experts`: the type of experts that are in one tensor, if it is another.
inline written_gguf converted(const std::filesystem::path& folder, const std::string& architecture,
                              const std::string& type, const std::string& of_experts = "") {
  const json config = read_json(folder / "config.json");
  written_gguf w;
  w.keys = converted_keys(config, architecture);
  const checkpoint weights(folder);
  const bool joined = architecture == "gpt-oss" || architecture == "llama4";  // all experts are in one tensor
  std::map<std::string, std::map<int, written_gguf::tensor>> experts;
  for (const auto& e : std::filesystem::directory_iterator(folder)) {
    if (e.path().extension() != ".safetensors" || e.path().filename() == "forward.safetensors") continue;
    const safetensors_file file(e.path());
    for (tensor_entry t : file.tensors()) {
      const auto all = t.name.find(".experts.");
      if (joined && all != t.name.npos) {
        // Gate and up take turns in the columns; GGUF has a tensor of each, output by input.
        const bool bias = t.name.ends_with("_bias"), down = t.name.find("down_proj") != t.name.npos;
        const index_t count = t.shape[0], out = t.shape.back() / (down ? 1 : 2), in = bias ? 1 : t.shape[1];
        for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
          if (down != (std::string_view(part) == "down_proj")) continue;
          const std::string ending = bias ? ".bias" : ".weight", one = t.name.substr(0, all + 9);
          written_gguf::tensor x{gguf_name(architecture, one + part + ending), {count, out}, "F32", {}};
          if (!bias) x = {x.name, {count, out, in}, type_of_rows(of_experts.empty() ? type : of_experts, in), {}};
          for (index_t n = 0; n < count; ++n) {
            std::vector<float> values(static_cast<std::size_t>(out * in));
            const std::vector<index_t> shape = bias ? std::vector{out} : std::vector{out, in};
            weights.read(one + std::to_string(n) + '.' + part + ending, shape, 0, out, false, values.data());
            x.values.insert(x.values.end(), values.begin(), values.end());
          }
          w.tensors.push_back(std::move(x));
        }
        continue;
      }
      if (split_delta_inputs(w, architecture, weights, config, t, type)) continue;
      if (split_latent(w, architecture, weights, config, t, type)) continue;
      if (t.shape.size() == 3) t.shape.erase(t.shape.begin() + 1);  // of a convolution
      const index_t rows = t.shape[0], width = t.shape.size() > 1 ? t.shape[1] : 1;
      written_gguf::tensor x{"", t.shape, t.shape.size() == 1 ? "F32" : type_of_rows(type, width), {}};
      std::vector<float> values(static_cast<std::size_t>(rows * width));
      weights.read(t.name, file.at(t.name).shape, 0, rows, false, values.data());
      const bool plus_one = architecture == "gemma2" || architecture == "gemma3" || has_delta(architecture);
      if (plus_one && t.name.ends_with("norm.weight") && !t.name.ends_with("linear_attn.norm.weight"))
        for (float& v : values) v += 1;
      if (t.name.ends_with(".A_log"))
        for (float& v : values) v = -std::exp(v);
      if (architecture.starts_with("qwen35") && t.name.ends_with("linear_attn.out_proj.weight")) {
        const auto in_order = values;
        for (index_t r = 0; r < rows; ++r)
          for (index_t c = 0; c < width; ++c)
            values[r * width + converted_row(architecture, "linear_attn.in_proj_z.", config, width, c)] =
                in_order[r * width + c];
      }
      x.values.resize(values.size());
      for (index_t r = 0; r < rows; ++r)
        std::copy_n(&values[r * width], width, &x.values[converted_row(architecture, t.name, config, rows, r) * width]);
      if (const auto at = t.name.find("mlp.experts."); at != t.name.npos) {
        const auto dot = t.name.find('.', at + 12);
        const std::string name = gguf_name(architecture, t.name.substr(0, at + 3) + t.name.substr(dot));
        experts[name.substr(0, name.rfind('.')) + "_exps.weight"][std::stoi(t.name.substr(at + 12))] = std::move(x);
        continue;
      }
      x.name = gguf_name(architecture, t.name);
      w.tensors.push_back(std::move(x));
    }
  }
  for (auto& [name, parts] : experts) {
    written_gguf::tensor all{name, parts[0].shape, parts[0].type, {}};
    all.shape.insert(all.shape.begin(), static_cast<index_t>(parts.size()));
    for (const auto& [number, part] : parts)
      all.values.insert(all.values.end(), part.values.begin(), part.values.end());
    w.tensors.push_back(std::move(all));
  }
  if (architecture == "phi3")
    for (const std::string kind : {"long", "short"}) {
      const auto factors = config["rope_parameters"][kind + "_factor"].get<std::vector<float>>();
      w.tensors.push_back({"rope_factors_" + kind + ".weight", {static_cast<index_t>(factors.size())}, "F32", factors});
    }
  if (architecture == "gemma4") {
    const auto frequencies = read_description(config).rope.inv_freq;
    written_gguf::tensor t{"rope_freqs.weight", {static_cast<index_t>(frequencies.size())}, "F32", {}};
    for (const float f : frequencies) t.values.push_back(f > 0 ? 1.0f : 1e30f);
    w.tensors.push_back(std::move(t));
  }
  if (architecture == "glm4moe") w.tensors.push_back({"blk.3.nextn.eh_proj.weight", {1, 2}, "F32", {1, 1}});
  // Llama 3's scaling becomes a tensor of divisors.
  if (const auto rope = read_description(config).rope; rope.type == "llama3") {
    const auto plain = default_frequencies(rope.theta, rope.rotary_dim);
    written_gguf::tensor t{"rope_freqs.weight", {static_cast<index_t>(plain.size())}, "F32", {}};
    for (std::size_t i = 0; i < plain.size(); ++i) t.values.push_back(plain[i] / rope.inv_freq[i]);
    w.tensors.push_back(std::move(t));
  }
  return w;
}

/// Puts gate and up of the experts of each layer into one tensor. Returns how many layers have experts.
inline int fuse_gate_and_up(written_gguf& model) {
  int layers = 0;
  for (auto& gate : model.tensors) {
    const auto at = gate.name.find("ffn_gate_exps.weight");
    if (at == gate.name.npos) continue;
    const std::string before = gate.name.substr(0, at);
    const auto up = std::find_if(model.tensors.begin(), model.tensors.end(),
                                 [&](const auto& t) { return t.name == before + "ffn_up_exps.weight"; });
    const auto expert = static_cast<std::ptrdiff_t>(gate.shape[1] * gate.shape[2]);
    std::vector<float> both;
    for (std::ptrdiff_t first = 0; first < static_cast<std::ptrdiff_t>(gate.values.size()); first += expert)
      for (const auto* values : {&gate.values, &up->values})
        both.insert(both.end(), values->begin() + first, values->begin() + first + expert);
    gate = {before + "ffn_gate_up_exps.weight", {gate.shape[0], 2 * gate.shape[1], gate.shape[2]}, gate.type, both};
    up->name.clear();
    ++layers;
  }
  std::erase_if(model.tensors, [](const auto& t) { return t.name.empty(); });
  return layers;
}

}  // namespace qkgeom::test
