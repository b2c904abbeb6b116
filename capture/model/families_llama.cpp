// SPDX-License-Identifier: MIT
// Llama and the families that differ from it by switches.
#include <algorithm>

#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

constexpr auto always = [](std::size_t) { return true; };

/// Where the tensors of a model inside a wrapper with images begin, by the age of the file.
const std::vector<std::string> wrapped{"language_model.model.", "model.language_model.", "model."};

json_fields text_config(const json_fields& c) {
  auto text = c.child("text_config");
  require(text.has_value(), c.where(), " has no field text_config");
  return *text;
}

/// One bias switch for q, k, v and output, as most families have it.
void read_attention_bias(const json_fields& c, decoder_description& m) {
  m.qkv_bias = m.output_bias = c.boolean("attention_bias").value_or(false);
}

}  // namespace

decoder_description read_llama(const json_fields& c) {
  decoder_description m = read_common(c, {});
  read_attention_bias(c, m);
  m.feed_forward_bias = c.boolean("mlp_bias").value_or(false);
  return m;
}

/// SmolLM3: some layers have no rotary embedding (`no_rope_layers` holds 1 where there IS one), and these alone may
/// slide.
decoder_description read_smollm3(const json_fields& c) {
  decoder_description m = read_common(c, {.key_heads = 4, .context = 32768, .tied = true, .rope = {.theta = 2e6}});
  read_attention_bias(c, m);
  m.feed_forward_bias = c.boolean("mlp_bias").value_or(false);
  const index_t interval = c.integer("no_rope_layer_interval", 1, index_t{1} << 30).value_or(4);
  const auto* switches = layer_list(c, "no_rope_layers", m.layers.size());
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    layer_description& layer = m.layers[i];
    layer.rope = (static_cast<index_t>(i) + 1) % interval != 0;
    if (!switches) continue;
    const auto& s = (*switches)[i];
    require(s.is_boolean() || s == 0 || s == 1, c.where(), ": no_rope_layers must hold 0 and 1, not ", s.dump());
    layer.rope = s.is_boolean() ? s.get<bool>() : s.get<int>() == 1;
  }
  auto window = read_window(c, {});
  if (!c.boolean("use_sliding_window").value_or(false)) window.reset();
  set_windows(c, m, window, [&](std::size_t i) { return !m.layers[i].rope; });
  return m;
}

/// Mistral: no biases; a window on all layers, 4096 when config.json does not mention it.
decoder_description read_mistral(const json_fields& c) {
  decoder_description m = read_common(c, {.feed_forward = 14336, .key_heads = 8, .context = 131072});
  const auto window = read_window(c, 4096);
  for (layer_description& l : m.layers) l.window = window;
  return m;
}

decoder_description read_ministral(const json_fields& c) {
  decoder_description m = read_common(c, {.feed_forward = 14336, .key_heads = 8, .context = 131072});
  set_windows(c, m, read_window(c, 4096), always);
  return m;
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

/// Ministral 3: YaRN, and queries that grow with the position.
decoder_description read_ministral3(const json_fields& c) {
  const family_defaults d{.hidden = 4096,
                          .feed_forward = 14336,
                          .vocabulary = 131072,
                          .query_heads = 32,
                          .layers = 34,
                          .key_heads = 8,
                          .head_dim = 128,
                          .context = 262144,
                          .norm_eps = 1e-5};
  decoder_description m = read_shape(c, d);
  m.act = read_activation(c, "hidden_act", "silu");
  auto dictionary = rope_dictionary(c);
  if (!dictionary) dictionary = json_fields(ministral3_rope(), c.where() + ": rope_parameters");
  m.rope =
      read_rope_dictionary(c, dictionary, m.head_dim, m.context, {.theta = c.positive("rope_theta").value_or(1e4)});
  const double beta = dictionary->number("llama_4_scaling_beta").value_or(0);
  const auto original =
      says_original_context(c, *dictionary).integer("original_max_position_embeddings", 1, index_t{1} << 30);
  if (beta != 0) m.growth = query_growth{beta, original.value_or(m.context)};
  const auto window = read_window(c, {});
  for (layer_description& l : m.layers) l.window = window;
  return m;
}

decoder_description read_mistral3(const json_fields& c) {
  const json_fields given = text_config(c);
  nlohmann::json named = given.object();
  if (!named.contains("model_type")) named["model_type"] = "mistral";
  const json_fields text(named, given.where());
  const std::string type = text.required_string("model_type");
  require(type == "ministral3" || type == "mistral", text.where(), ": model_type '", type,
          "' is not supported inside mistral3; supported: ministral3, mistral");
  for (const auto& quantised : {c.child("quantization_config"), text.child("quantization_config")}) {
    if (!quantised) continue;
    const std::string method = quantised->required_string("quant_method");
    require(method == "fp8" && !quantised->find("weight_block_size"), quantised->where(), ": quant_method '", method,
            "' is not supported; supported: fp8 with one scale a tensor");
  }
  decoder_description m = type == "ministral3" ? read_ministral3(text) : read_mistral(text);
  m.model_type = "mistral3";
  m.tied = c.boolean("tie_word_embeddings").value_or(text.boolean("tie_word_embeddings").value_or(true));
  m.prefixes = wrapped;
  return m;
}

namespace {

/// Qwen 2 and 3: a window only if `use_sliding_window` says so, and then from layer max_window_layers on.
void read_qwen_windows(const json_fields& c, decoder_description& m) {
  auto window = read_window(c, 4096);
  if (!c.boolean("use_sliding_window").value_or(false)) window.reset();
  const auto first = static_cast<std::size_t>(c.integer("max_window_layers", 0, 65536).value_or(28));
  set_windows(c, m, window, [&](std::size_t i) { return i >= first; });
}

}  // namespace

decoder_description read_qwen2(const json_fields& c) {
  decoder_description m = read_common(c, {.key_heads = 32, .context = 32768});
  m.qkv_bias = true;
  read_qwen_windows(c, m);
  return m;
}

decoder_description read_qwen3(const json_fields& c) {
  decoder_description m = read_common(c, {.key_heads = 32, .head_dim = 128, .context = 32768});
  read_attention_bias(c, m);
  m.qk = qk_norm::each_head;
  read_qwen_windows(c, m);
  return m;
}

decoder_description read_qwen3_moe(const json_fields& c) {
  decoder_description m = read_common(c, {.feed_forward = 6144, .key_heads = 4, .context = 32768});
  read_attention_bias(c, m);
  m.qk = qk_norm::each_head;
  auto window = read_window(c, 4096);
  if (!c.boolean("use_sliding_window").value_or(false)) window.reset();
  for (layer_description& l : m.layers) l.window = window;

  experts_description e;
  // transformers 5 writes num_local_experts.
  e.count = c.integer("num_experts", 0, 65536).value_or(c.integer("num_local_experts", 0, 65536).value_or(128));
  e.chosen = c.integer("num_experts_per_tok", 1, 65536).value_or(8);
  e.width = c.integer("moe_intermediate_size", 1, index_t{1} << 24).value_or(768);
  e.normalised = c.boolean("norm_topk_prob").value_or(false);
  require(e.count == 0 || e.chosen <= e.count, c.where(), ": num_experts_per_tok (", e.chosen,
          ") must be at most num_experts (", e.count, ")");
  const index_t step = c.integer("decoder_sparse_step", 1, 65536).value_or(1);
  const auto* dense = c.find("mlp_only_layers");
  require(!dense || dense->is_array(), c.where(), ": mlp_only_layers must be a list");
  for (std::size_t i = 0; i < m.layers.size(); ++i)
    m.layers[i].experts = e.count > 0 && (static_cast<index_t>(i) + 1) % step == 0 &&
                          (!dense || std::find(dense->begin(), dense->end(), i) == dense->end());
  m.experts = e;
  return m;
}

/// Llama 3.2 with images: without an image the layers that attend to it do nothing.
decoder_description read_mllama_text(const json_fields& c) {
  const family_defaults d{.hidden = 4096,
                          .feed_forward = 14336,
                          .vocabulary = 128256,
                          .query_heads = 32,
                          .layers = 40,
                          .key_heads = 8,
                          .context = 131072,
                          .norm_eps = 1e-5,
                          .rope = {.theta = 5e5}};
  decoder_description m = read_common(c, d);
  m.embedding_rows = m.vocabulary + 8;
  m.prefixes = wrapped;
  nlohmann::json cross{3, 8, 13, 18, 23, 28, 33, 38};
  if (const auto* listed = c.find("cross_attention_layers")) cross = *listed;
  require(cross.is_array(), c.where(), ": cross_attention_layers must be a list");
  for (std::size_t i = 0; i < m.layers.size(); ++i)
    m.layers[i].skipped = std::find(cross.begin(), cross.end(), i) != cross.end();
  return m;
}

decoder_description read_mllama(const json_fields& c) {
  decoder_description m = read_mllama_text(text_config(c));
  m.model_type = "mllama";
  m.tied = c.boolean("tie_word_embeddings").value_or(m.tied);
  return m;
}

}  // namespace qkgeom
