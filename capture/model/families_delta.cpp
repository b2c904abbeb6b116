// SPDX-License-Identifier: MIT
// Families with other nets among layers of attention: gated delta nets, state spaces, convolutions.
#include "capture/model/family_readers.hpp"

namespace qkgeom {

namespace {

decoder_description read_hybrid(const json_value& config, const char* usual) {
  decoder_description model = read_common(config, usual, {.partial = 0.25, .may_be_partial = true});
  read_attention_bias(config, model);
  model.norm = norm_kind::gemma;
  model.qk = qk_norm::each_head;
  model.gated_output = true;
  model.prefixes = {"model.language_model.", "language_model.model.", "model."};
  const delta_description net{
      count_of(config, "linear_num_key_heads", 16), count_of(config, "linear_num_value_heads", 32),
      count_of(config, "linear_key_head_dim", 128), count_of(config, "linear_value_head_dim", 128),
      count_of(config, "linear_conv_kernel_dim", 4)};
  require(net.value_heads % net.key_heads == 0, config.where(), ": linear_num_value_heads (", net.value_heads,
          ") must be a multiple of linear_num_key_heads (", net.key_heads, ")");
  require(model.act == activation::silu, config.where(), ": hidden_act must be silu in a gated delta net");
  model.delta = net;
  const index_t interval = count_of(config, "full_attention_interval", 4);
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
  return read_hybrid(config, R"({"hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 248320,
      "num_attention_heads": 16, "num_hidden_layers": 32, "num_key_value_heads": 4, "head_dim": 256,
      "max_position_embeddings": 32768})");
}

/// Reads Qwen 3 Next: the same layers with experts, beside a gated feed-forward of all tokens.
decoder_description read_qwen3_next(const json_value& config) {
  decoder_description model = read_hybrid(config, R"({"hidden_size": 2048, "intermediate_size": 5632,
      "vocab_size": 151936, "num_attention_heads": 16, "num_hidden_layers": 48, "num_key_value_heads": 2,
      "head_dim": 256, "max_position_embeddings": 32768})");
  model.delta->by_key_head = true;
  model.delta->apart = config.boolean("linear_projections_apart").value_or(false);  // set by the GGUF reader
  model.experts = read_gated_experts(config, 0, {.count = 512, .chosen = 10, .width = 512});
  set_sparse_layers(config, model);
  return model;
}

/// Reads Qwen 3.5 with experts in every layer, whose chosen probabilities are always divided by their sum.
decoder_description read_qwen3_5_moe_text(const json_value& config) {
  decoder_description model = read_hybrid(config, R"({"hidden_size": 2048, "intermediate_size": 512,
      "vocab_size": 248320, "num_attention_heads": 16, "num_hidden_layers": 40, "num_key_value_heads": 2,
      "head_dim": 256, "max_position_embeddings": 32768})");
  model.experts = read_gated_experts(config, 1, {.count = 256, .chosen = 8, .width = 512});
  model.experts->normalised = true;
  for (layer_description& layer : model.layers) layer.experts = true;
  return model;
}

/// Reads OLMo Hybrid: OLMo 3's attention in each fourth layer, which may not rotate, and gated delta nets, which norm
/// their inputs and not their outputs.
decoder_description read_olmo_hybrid(const json_value& config) {
  nlohmann::json whole = with_usual(config, R"({"max_position_embeddings": 65536, "rms_norm_eps": 1e-6})");
  const auto rope = rope_dictionary(config);
  const bool rotates = rope && rope->find("rope_theta") && !rope->raw()["rope_theta"].is_null();
  if (!rotates)
    for (const char* name : {"rope_scaling", "rope_parameters"}) whole.erase(name);
  decoder_description model = read_olmo2(json_value(whole, config.where()));
  model.net_names = weight_names{};
  model.net_names->attention_norm = "attention_layer_norm";
  model.net_names->feed_forward_norm = "feedforward_layer_norm";
  const index_t heads = count_of(config, "linear_num_key_heads", model.query_heads);
  const index_t key_dim = count_of(config, "linear_key_head_dim", std::max<index_t>(1, 3 * model.hidden / (4 * heads)));
  require(count_of(config, "linear_num_value_heads", model.query_heads) == heads, config.where(),
          ": linear_num_value_heads must be linear_num_key_heads (", heads, ") in this family");
  require(model.act == activation::silu, config.where(), ": hidden_act must be silu in a gated delta net");
  model.delta =
      delta_description{.key_heads = heads,
                        .value_heads = heads,
                        .key_dim = key_dim,
                        .value_dim = count_of(config, "linear_value_head_dim", 2 * key_dim),
                        .kernel = count_of(config, "linear_conv_kernel_dim", 4),
                        .all_apart = true,
                        .most_learned = config.boolean("linear_allow_neg_eigval").value_or(true) ? 2.0f : 1.0f,
                        .norm_eps = 1e-5};
  const auto* types = layer_list(config, "layer_types", model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].delta = types ? (*types)[i] == "linear_attention" : i % 4 != 3;
    model.layers[i].rope = rotates;
  }
  return model;
}

/// Reads LFM3: gated convolutions, and attention with a gate per head; outputs have norms too.
decoder_description read_lfm3(const json_value& config) {
  decoder_description model = read_shape(config, R"({"hidden_size": 2048, "intermediate_size": 7680,
      "vocab_size": 128000, "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 4,
      "head_dim": 128, "max_position_embeddings": 128000, "tie_word_embeddings": true})");
  model.norm_eps = config.positive("norm_eps").value_or(1e-5);
  read_attention_bias(config, model);
  model.qk = qk_norm::each_head;
  model.gated_output = model.gated_heads = config.boolean("use_attention_gate").value_or(true);
  weight_names& names = model.names;
  names.attention_norm = "operator_norm";
  names.feed_forward_norm = "ffn_norm";
  if (config.boolean("use_sandwich_norm").value_or(true)) {
    names.attention_out_norm = "post_operator_norm";
    names.feed_forward_out_norm = "post_ffn_norm";
  }
  names.gated = "feed_forward.";
  names.gated_parts = {"w1", "w3", "w2"};
  model.final_norm = "embedding_norm";
  require(!config.boolean("conv_bias").value_or(false), config.where(),
          ": conv_bias: biases of convolutions are not supported");
  model.delta = delta_description{.value_heads = 1,
                                  .value_dim = model.hidden,
                                  .kernel = count_of(config, "conv_L_cache", 7),
                                  .kind = net_kind::convolution};
  const auto window = read_window(config, 256);
  const auto* types = layer_list(config, "layer_types", model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    layer_description& layer = model.layers[i];
    layer.delta = types ? (*types)[i] == "conv" : i % 2 != 0 || i == 0;
    layer.local_rope = !layer.delta && (types ? (*types)[i] == "sliding_attention" : i % 4 == 0);
    if (layer.local_rope) layer.window = window;
  }
  static const nlohmann::json usual{
      {"sliding_attention", {{"rope_theta", 1e4}}},
      {"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.5}, {"rope_theta", 1e6}}}};
  const json_value ropes = config.object("rope_parameters").value_or(json_value(usual, config.where()));
  model.rope = read_rope_dictionary(config, ropes["full_attention"].object(), model.head_dim, model.context,
                                    {.may_be_partial = true});
  model.local_rope =
      read_rope_dictionary(config, ropes["sliding_attention"].object(), model.head_dim, model.context, {});
  for (rope_description* rope : {&model.rope, &*model.local_rope}) rope->exact = rope->exact_table = true;
  return model;
}

delta_description read_state_space(const json_value& config, const decoder_description& model) {
  const index_t values = config.integer("mamba_expand", 1, 64).value_or(2) * model.hidden,
                heads = count_of(config, "mamba_n_heads", 128), groups = count_of(config, "mamba_n_groups", 1);
  require(values % heads == 0 && heads % groups == 0, config.where(), ": mamba_n_heads (", heads,
          ") must divide mamba_expand * hidden_size (", values, ") and be a multiple of mamba_n_groups (", groups, ")");
  const auto* dim = config.find("mamba_d_head");
  require(!dim || *dim == "auto" || *dim == values / heads, config.where(), ": mamba_d_head must be ", values / heads);
  require(!config.boolean("mamba_proj_bias").value_or(false), config.where(),
          ": mamba_proj_bias: biases of a state space's matrices are not supported");
  require(model.act == activation::silu, config.where(), ": hidden_act must be silu in a state space");
  const auto* limit = config.find("time_step_limit");
  require(!limit || (limit->is_array() && limit->size() == 2 && (*limit)[0].is_number()), config.where(),
          ": time_step_limit must hold two numbers");
  return {.key_heads = groups,
          .value_heads = heads,
          .key_dim = count_of(config, "mamba_d_state", 256),
          .value_dim = values / heads,
          .kernel = count_of(config, "mamba_d_conv", 4),
          .kind = net_kind::state_space,
          .convolution_bias = config.boolean("mamba_conv_bias").value_or(true),
          .least_step = limit ? (*limit)[0].get<float>() : 0.0f,
          .most_step = limit && (*limit)[1].is_number() ? (*limit)[1].get<float>() : HUGE_VALF};  // else infinity
}

}  // namespace qkgeom
