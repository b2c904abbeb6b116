// SPDX-License-Identifier: MIT
#include <algorithm>

#include "capture/model/family_readers.hpp"

namespace qkgeom {

/// Reads Llama 4: three layers of four rotate, norm queries and keys after it, and attend within chunks of the
/// document; the others see all keys, and their queries grow. Experts multiply inputs by the sigmoid of their logit.
decoder_description read_llama4_text(const json_value& config) {
  decoder_description model = read_common(config, {.hidden = 5120,
                                                   .feed_forward = 8192,
                                                   .vocabulary = 202048,
                                                   .query_heads = 40,
                                                   .layers = 48,
                                                   .key_heads = 8,
                                                   .head_dim = 128,
                                                   .context = 131072,
                                                   .norm_eps = 1e-5,
                                                   .rope = {.theta = 5e5}});
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
  const index_t step = config.integer("interleave_moe_layer_step", 1, 65536).value_or(1);
  const auto* experts = config.find("moe_layers");
  require(!experts || experts->is_array(), config.where(), ": moe_layers must be a list");
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].experts = experts ? std::find(experts->begin(), experts->end(), i) != experts->end()
                                      : (static_cast<index_t>(i) + 1) % step == 0;
  model.experts = e;
  return model;
}

}  // namespace qkgeom
