// SPDX-License-Identifier: MIT
// Families with other norms, feed-forwards or names than Llama's.
#include <cmath>

#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

/// Gemma 3: full and sliding layers have a rotary embedding each.
void read_gemma3_rope(const json_fields& c, decoder_description& m) {
  const auto both = c.child("rope_parameters");
  auto full = both ? both->child("full_attention") : std::nullopt;
  const auto local = both ? both->child("sliding_attention") : std::nullopt;
  require(!both || full || local, c.where(), ": rope_parameters must hold full_attention and sliding_attention");
  // rope_scaling is laid over the full layers' dictionary.
  nlohmann::json merged = full ? full->object() : nlohmann::json{{"rope_type", "default"}};
  if (const auto scaling = c.child("rope_scaling")) merged.update(scaling->object());
  const std::string where = c.where() + ": rope_parameters";
  m.rope = read_rope_dictionary(c, json_fields(merged, where), m.head_dim, m.context,
                                {.theta = c.positive("rope_theta").value_or(1e6)});
  m.local_rope = read_rope_dictionary(c, local, m.head_dim, m.context,
                                      {.theta = c.positive("rope_local_base_freq").value_or(1e4)});
}

}  // namespace

decoder_description read_gemma3_text(const json_fields& c) {
  const family_defaults d{.hidden = 2304,
                          .feed_forward = 9216,
                          .vocabulary = 262208,
                          .query_heads = 8,
                          .layers = 26,
                          .key_heads = 4,
                          .head_dim = 256,
                          .context = 131072,
                          .tied = true};
  require(!c.boolean("use_bidirectional_attention").value_or(false), c.where(),
          ": use_bidirectional_attention is not supported");
  decoder_description m = read_shape(c, d);
  m.act = read_activation(c, "hidden_activation", "gelu_pytorch_tanh");
  m.qkv_bias = m.output_bias = c.boolean("attention_bias").value_or(false);
  m.norm = norm_kind::gemma;
  m.qk = qk_norm::each_head;
  m.scaled_embedding = true;
  m.caps_logits = c.positive("final_logit_softcapping").has_value();
  m.score_scale = 1 / std::sqrt(c.positive("query_pre_attn_scalar").value_or(256));
  m.names.attention_out_norm = "post_attention_layernorm";
  m.names.feed_forward_norm = "pre_feedforward_layernorm";
  m.names.feed_forward_out_norm = "post_feedforward_layernorm";
  m.prefixes = {"model.", "language_model.model.", "model.language_model."};
  const auto pattern = static_cast<std::size_t>(c.integer("sliding_window_pattern", 1, 4096).value_or(6));
  const index_t whole = index_t{1} << 30;
  set_windows(c, m, read_window(c, 4096).value_or(whole), [&](std::size_t i) { return (i + 1) % pattern != 0; });
  for (layer_description& l : m.layers) {
    l.local_rope = l.window.has_value();
    if (l.window == whole) l.window.reset();
  }
  read_gemma3_rope(c, m);
  return m;
}

decoder_description read_gemma3(const json_fields& c) {
  const auto text = c.child("text_config");
  require(text.has_value(), c.where(), " has no field text_config");
  nlohmann::json named = text->object();
  if (!named.contains("model_type")) named["model_type"] = "gemma3_text";
  decoder_description m = read_gemma3_text(json_fields(named, text->where()));
  m.model_type = "gemma3";
  m.tied = c.boolean("tie_word_embeddings").value_or(m.tied);
  m.prefixes = {"language_model.model.", "model.language_model.", "model."};
  return m;
}

/// GLM: half of a head's channels are rotated, in neighbouring pairs; gate and up are one matrix.
decoder_description read_glm(const json_fields& c) {
  decoder_description m = read_common(c, {.key_heads = 2,
                                          .head_dim = 128,
                                          .context = 131072,
                                          .norm_eps = 1.5625e-7,
                                          .rope = {.partial = 0.5, .may_be_partial = true}});
  m.rope.interleaved = true;
  m.qkv_bias = c.boolean("attention_bias").value_or(true);
  m.feed_forward_form = feed_forward_kind::fused_gated;
  m.names.up = "mlp.gate_up_proj";
  return m;
}

decoder_description read_glm4(const json_fields& c) {
  decoder_description m = read_glm(c);
  m.names.attention_out_norm = "post_self_attn_layernorm";
  m.names.feed_forward_out_norm = "post_mlp_layernorm";
  return m;
}

/// OLMo 2: what attention and feed-forward give is normed, not what they read; queries and keys of all heads together.
decoder_description read_olmo2(const json_fields& c) {
  decoder_description m = read_common(c, {.norm_eps = 1e-5});
  m.qkv_bias = m.output_bias = c.boolean("attention_bias").value_or(false);
  m.norm = norm_kind::olmo;
  m.qk = qk_norm::all_heads;
  m.rope.exact = true;
  m.names.attention_norm = m.names.feed_forward_norm = "";
  m.names.attention_out_norm = "post_attention_layernorm";
  m.names.feed_forward_out_norm = "post_feedforward_layernorm";
  return m;
}

/// GPT-NeoX and Pythia.
decoder_description read_gpt_neox(const json_fields& c) {
  const rope_defaults rope{.theta = c.positive("rotary_emb_base").value_or(10000),
                           .partial = c.positive("rotary_pct").value_or(0.25),
                           .may_be_partial = true};
  decoder_description m = read_shape(c, {});
  m.key_heads = m.query_heads;
  m.head_dim = m.hidden / m.query_heads;  // whatever a field head_dim says
  m.act = read_activation(c, "hidden_act", "gelu");
  m.rope = read_rope_dictionary(c, rope_dictionary(c), m.head_dim, m.context, rope);
  m.norm = norm_kind::layer;
  m.norm_eps = c.positive("layer_norm_eps").value_or(1e-5);
  m.qkv_bias = m.output_bias = c.boolean("attention_bias").value_or(true);
  m.feed_forward_bias = true;
  m.feed_forward_form = feed_forward_kind::not_gated;
  m.parallel_residual = c.boolean("use_parallel_residual").value_or(true);
  m.names.qkv = "attention.query_key_value";
  m.names.output = "attention.dense";
  m.names.up = "mlp.dense_h_to_4h";
  m.names.down = "mlp.dense_4h_to_h";
  m.embedding = "embed_in";
  m.final_norm = "final_layer_norm";
  m.outputs = {"embed_out.weight"};
  m.prefixes = {"gpt_neox."};
  return m;
}

}  // namespace qkgeom
