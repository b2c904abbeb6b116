// SPDX-License-Identifier: MIT
// Families with layers of gated delta nets among layers of attention.
#include "capture/model/family_readers.hpp"

namespace qkgeom {

namespace {

/// Reads the fields that Qwen 3.5 and Qwen 3 Next share.
decoder_description read_hybrid(const json_value& config, const family_defaults& defaults) {
  decoder_description model = read_common(config, defaults);
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

/// Reads experts beside a gated feed-forward of all tokens.
experts_description read_gated_experts(const json_value& config, index_t least, experts_description otherwise) {
  otherwise.normalised = otherwise.gated_shared = true;
  otherwise.shared = "mlp.shared_expert.";
  otherwise.shared_width = config.integer("shared_expert_intermediate_size", 1, index_t{1} << 24).value_or(512);
  return read_experts(config, "num_experts", least, otherwise);
}

}  // namespace

/// Reads Qwen 3.5: each fourth layer attends, with gates on its result; the others are gated delta nets.
decoder_description read_qwen3_5_text(const json_value& config) {
  return read_hybrid(config, {.hidden = 4096,
                              .feed_forward = 12288,
                              .vocabulary = 248320,
                              .query_heads = 16,
                              .layers = 32,
                              .key_heads = 4,
                              .head_dim = 256,
                              .context = 32768,
                              .rope = {.partial = 0.25, .may_be_partial = true}});
}

/// Reads Qwen 3 Next: the same layers with experts, beside a gated feed-forward of all tokens.
decoder_description read_qwen3_next(const json_value& config) {
  decoder_description model = read_hybrid(config, {.hidden = 2048,
                                                   .feed_forward = 5632,
                                                   .vocabulary = 151936,
                                                   .query_heads = 16,
                                                   .layers = 48,
                                                   .key_heads = 2,
                                                   .head_dim = 256,
                                                   .context = 32768,
                                                   .rope = {.partial = 0.25, .may_be_partial = true}});
  model.delta->by_key_head = true;
  model.delta->apart = config.boolean("linear_projections_apart").value_or(false);  // set by the GGUF reader
  model.experts = read_gated_experts(config, 0, {.count = 512, .chosen = 10, .width = 512});
  set_sparse_layers(config, model);
  return model;
}

/// Reads Qwen 3.5 with experts in every layer, whose chosen probabilities are always divided by their sum.
decoder_description read_qwen3_5_moe_text(const json_value& config) {
  decoder_description model = read_hybrid(config, {.hidden = 2048,
                                                   .feed_forward = 512,
                                                   .vocabulary = 248320,
                                                   .query_heads = 16,
                                                   .layers = 40,
                                                   .key_heads = 2,
                                                   .head_dim = 256,
                                                   .context = 32768,
                                                   .rope = {.partial = 0.25, .may_be_partial = true}});
  model.experts = read_gated_experts(config, 1, {.count = 256, .chosen = 8, .width = 512});
  model.experts->normalised = true;
  for (layer_description& layer : model.layers) layer.experts = true;
  return model;
}

}  // namespace qkgeom
