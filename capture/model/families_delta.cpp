// SPDX-License-Identifier: MIT
// Families with layers of gated delta nets between those of attention.
#include "capture/model/family_readers.hpp"

namespace qkgeom {

/// Qwen 3.5: each fourth layer attends, with gates on its result; the others are gated delta nets.
decoder_description read_qwen3_5_text(const json_value& config) {
  decoder_description model = read_common(config, {.hidden = 4096,
                                                   .feed_forward = 12288,
                                                   .vocabulary = 248320,
                                                   .query_heads = 16,
                                                   .layers = 32,
                                                   .key_heads = 4,
                                                   .head_dim = 256,
                                                   .context = 32768,
                                                   .rope = {.partial = 0.25, .may_be_partial = true}});
  read_attention_bias(config, model);
  model.norm = norm_kind::gemma;
  model.qk = qk_norm::each_head;
  model.gated_output = true;
  model.prefixes = {"model.language_model.", "language_model.model.", "model."};
  const auto number = [&](const char* field, index_t otherwise) {
    return config.integer(field, 1, 65536).value_or(otherwise);
  };
  delta_description net{number("linear_num_key_heads", 16), number("linear_num_value_heads", 32),
                        number("linear_key_head_dim", 128), number("linear_value_head_dim", 128),
                        number("linear_conv_kernel_dim", 4)};
  require(net.value_heads % net.key_heads == 0, config.where(), ": linear_num_value_heads (", net.value_heads,
          ") must be a multiple of linear_num_key_heads (", net.key_heads, ")");
  require(model.act == activation::silu, config.where(), ": hidden_act must be silu in a gated delta net");
  model.delta = net;
  const index_t interval = config.integer("full_attention_interval", 1, 65536).value_or(4);
  const auto* types = layer_list(config, "layer_types", model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].delta = types ? (*types)[i] == "linear_attention" : (static_cast<index_t>(i) + 1) % interval != 0;
  return model;
}

decoder_description read_qwen3_5(const json_value& config) {
  const json_value text = text_config(config);
  nlohmann::json named = text.raw();
  if (!named.contains("model_type")) named["model_type"] = "qwen3_5_text";
  decoder_description model = read_qwen3_5_text(json_value(named, text.where()));
  model.model_type = "qwen3_5";
  model.tied = config.boolean("tie_word_embeddings").value_or(model.tied);
  return model;
}

}  // namespace qkgeom
