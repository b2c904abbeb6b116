// SPDX-License-Identifier: MIT
// Families with other norms, feed-forwards or names than Llama's.
#include "capture/model/family_readers.hpp"

namespace qkgeom {

/// Reads GLM, which rotates half of a head's channels, in neighbouring pairs; gate and up are one matrix.
decoder_description read_glm(const json_value& config) {
  decoder_description model = read_common(config, R"({"num_key_value_heads": 2, "head_dim": 128,
      "max_position_embeddings": 131072, "rms_norm_eps": 1.5625e-7})",
                                          {.partial = 0.5, .may_be_partial = true});
  model.rope.interleaved = true;
  model.qkv_bias = config.boolean("attention_bias").value_or(true);
  model.feed_forward_form = feed_forward_kind::fused_gated;
  model.names.up = "mlp.gate_up_proj";
  return model;
}

decoder_description read_glm4(const json_value& config) {
  decoder_description model = read_glm(config);
  model.names.attention_out_norm = "post_self_attn_layernorm";
  model.names.feed_forward_out_norm = "post_mlp_layernorm";
  return model;
}

/// Reads GLM 4.5: experts chosen by corrected sigmoids beside a feed-forward of all tokens, after some layers without
/// experts. Layers behind the last, which predict several tokens, are not read.
decoder_description read_glm4_moe(const json_value& config) {
  decoder_description model = read_common(config, R"({"hidden_size": 4096, "intermediate_size": 10944,
      "vocab_size": 151552, "num_attention_heads": 96, "num_hidden_layers": 46, "num_key_value_heads": 8,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-5})",
                                          {.partial = 0.5, .may_be_partial = true});
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  if (config.boolean("use_qk_norm").value_or(false)) model.qk = qk_norm::each_head;
  for (const char* field : {"n_group", "topk_group"})
    require(count_of(config, field, 1) == 1, config.where(), ": ", field,
            " must be 1; groups of experts are not supported");
  read_sigmoid_experts(config, model, {.count = 128, .chosen = 8, .width = 1408, .normalised = true}, 1);
  return model;
}

/// Reads OLMo 2, which norms outputs of attention and feed-forward, not inputs; q and k are normed over all heads.
decoder_description read_olmo2(const json_value& config) {
  decoder_description model = read_common(config, R"({"rms_norm_eps": 1e-5})");
  read_attention_bias(config, model);
  model.norm = norm_kind::olmo;
  model.qk = qk_norm::all_heads;
  model.rope.exact = model.rope.exact_table = true;
  norm_outputs_alone(model);
  return model;
}

/// Reads OLMo 3: OLMo 2 with a window in three layers of four, which ignore the scaling of the rotary embedding.
decoder_description read_olmo3(const json_value& config) {
  nlohmann::json plain = config.raw();
  plain.erase("rope_scaling");
  plain.erase("rope_parameters");
  decoder_description model = read_olmo2(json_value(plain, config.where()));
  set_alternating_windows(config, model, 4);
  for (layer_description& layer : model.layers) layer.local_rope = layer.window.has_value();
  const double theta = config.positive("rope_theta").value_or(5e5);
  read_ropes_by_type(config, model, theta, theta);
  for (rope_description* rope : {&model.rope, &*model.local_rope}) rope->exact = rope->exact_table = true;
  return model;
}

/// Reads EXAONE 4, which norms outputs of attention and feed-forward; if some layers slide, full ones do not rotate.
decoder_description read_exaone4(const json_value& config) {
  decoder_description model = read_common(config, R"({"rms_norm_eps": 1e-5})");
  model.qk = qk_norm::each_head;
  norm_outputs_alone(model);
  const auto* pattern = config.find("sliding_window_pattern");
  if (pattern && pattern->is_string()) {
    const auto letters = pattern->get<std::string>();
    require(!letters.empty() && letters.find_first_not_of("LG") == letters.npos, config.where(),
            ": sliding_window_pattern '", printable(letters), "' must be of the letters L and G");
    const auto window = read_window(config, 4096);
    const std::size_t last = model.layers.size() - 1;
    set_windows(config, model, window,
                [&](std::size_t i) { return window && i != last && letters[i % letters.size()] == 'L'; });
  } else {
    set_alternating_windows(config, model, 4);
  }
  if (read_window(config, 4096))
    for (layer_description& layer : model.layers) layer.rope = layer.window.has_value();
  return model;
}

/// Reads Cohere 2: one norm feeds attention and feed-forward; full layers do not rotate.
decoder_description read_cohere2(const json_value& config) {
  decoder_description model = read_common(config, R"({"hidden_size": 8192, "intermediate_size": 22528,
      "vocab_size": 256000, "num_attention_heads": 64, "num_hidden_layers": 40, "max_position_embeddings": 8192,
      "tie_word_embeddings": true})");
  read_attention_bias(config, model);
  model.norm = norm_kind::centred;
  model.norm_eps = config.positive("layer_norm_eps").value_or(1e-5);
  model.parallel_residual = model.adds_in_order = true;
  model.names.feed_forward_norm = model.names.attention_norm;
  model.rope.interleaved = model.rope.exact = true;
  model.logit_scale = config.positive("logit_scale").value_or(0.0625);
  set_alternating_windows(config, model, 4);
  for (layer_description& layer : model.layers) layer.rope = layer.window.has_value();
  return model;
}

/// Reads GPT-OSS: a sink in each head's softmax, a window in every other layer, experts with biases and clamped gates.
decoder_description read_gpt_oss(const json_value& config) {
  nlohmann::json whole = config.raw();
  if (!rope_dictionary(config))
    whole["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
                                {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096},
                                {"rope_theta", 150000}};
  if (!whole.contains("sliding_window")) whole["sliding_window"] = 128;
  const json_value filled(whole, config.where());
  decoder_description model = read_common(filled, R"({"hidden_size": 2880, "intermediate_size": 2880,
      "vocab_size": 201088, "num_attention_heads": 64, "num_hidden_layers": 36, "num_key_value_heads": 8,
      "head_dim": 64, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5})",
                                          {.theta = 150000});
  model.qkv_bias = model.output_bias = config.boolean("attention_bias").value_or(true);
  model.norm = norm_kind::olmo;
  model.sinks = true;
  set_alternating_windows(filled, model, 2);
  auto e = read_experts(config, "num_local_experts", 1,
                        {.count = 128, .chosen = 4, .width = model.feed_forward, .normalised = true});
  e.biases = true;
  require(config.positive("swiglu_alpha").value_or(1.702) == 1.702, config.where(), ": swiglu_alpha must be 1.702");
  e.limit = config.positive("swiglu_limit").value_or(7);
  e.router = "mlp.router";
  for (layer_description& layer : model.layers) layer.experts = true;
  model.experts = e;
  return model;
}

decoder_description read_gpt_neox(const json_value& config) {
  const rope_defaults rope{.theta = config.positive("rotary_emb_base").value_or(10000),
                           .partial = config.positive("rotary_pct").value_or(0.25),
                           .may_be_partial = true};
  decoder_description model = read_shape(config);
  model.key_heads = model.query_heads;
  model.head_dim = model.hidden / model.query_heads;  // a field head_dim is ignored
  model.act = read_activation(config, "hidden_act", "gelu");
  model.rope = read_rope_dictionary(config, rope_dictionary(config), model.head_dim, model.context, rope);
  model.norm = norm_kind::layer;
  model.norm_eps = config.positive("layer_norm_eps").value_or(1e-5);
  model.qkv_bias = model.output_bias = config.boolean("attention_bias").value_or(true);
  model.feed_forward_bias = true;
  model.feed_forward_form = feed_forward_kind::not_gated;
  model.parallel_residual = config.boolean("use_parallel_residual").value_or(true);
  model.names.qkv = "attention.query_key_value";
  model.names.output = "attention.dense";
  model.names.up = "mlp.dense_h_to_4h";
  model.names.down = "mlp.dense_4h_to_h";
  model.embedding = "embed_in";
  model.final_norm = "final_layer_norm";
  model.outputs = {"embed_out.weight"};
  model.prefixes = {"gpt_neox."};
  return model;
}

}  // namespace qkgeom
