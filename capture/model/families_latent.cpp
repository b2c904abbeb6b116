// SPDX-License-Identifier: MIT
// Families with latent attention.
#include <algorithm>
#include <cmath>

#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

/// Reads the ranks of the latent rows and the two parts of a head.
latent_description read_latent(const json_value& config) {
  const auto size = [&](const char* field, index_t otherwise) {
    return config.integer(field, 1, index_t{1} << 20).value_or(otherwise);
  };
  latent_description l;
  const bool silent = !config.raw().contains("q_lora_rank");  // null: queries have no latent rows
  l.query_rank = size("q_lora_rank", silent ? 1536 : 0);
  l.key_rank = size("kv_lora_rank", 512);
  l.plain = size("qk_nope_head_dim", 128);
  l.rotated = size("qk_rope_head_dim", 64);
  l.value_dim = size("v_head_dim", 128);
  l.bias = config.boolean("attention_bias").value_or(false);
  l.pairs = config.boolean("rope_interleave").value_or(true);
  require(l.plain + l.rotated <= 1024, config.where(), ": qk_nope_head_dim and qk_rope_head_dim (", l.plain, " and ",
          l.rotated, ") must be at most 1024 together");
  require(l.value_dim <= l.plain + l.rotated, config.where(), ": a v_head_dim (", l.value_dim,
          ") above qk_nope_head_dim + qk_rope_head_dim (", l.plain + l.rotated, ") is not supported");
  return l;
}

/// Returns YaRN's factor of scores: 1 where config.json does not name `mscale_all_dim`.
double growth_of_scores(const json_value& config) {
  const auto given = rope_dictionary(config);
  if (!given) return 1;
  const std::string type = given->string("rope_type").value_or(given->string("type").value_or("default"));
  const double all = given->number("mscale_all_dim").value_or(0);
  if (type == "default" || all == 0) return 1;
  const double factor = (*given)["factor"].positive(), m = factor <= 1 ? 1 : 0.1 * all * std::log(factor) + 1;
  return m * m;
}

/// Reads all but the experts of a model with latent attention.
decoder_description read_latent_model(const json_value& config, const char* usual) {
  const latent_description latent = read_latent(config);
  nlohmann::json plain = config.raw();
  plain["head_dim"] = latent.rotated;  // the channels that the rotary embedding counts
  plain.erase("num_key_value_heads");
  decoder_description model = read_common(json_value(plain, config.where()), usual);
  const index_t key_heads = count_of(config, "num_key_value_heads", model.query_heads);
  require(key_heads == model.query_heads, config.where(), ": num_key_value_heads (", key_heads,
          ") must be num_attention_heads (", model.query_heads, ") in latent attention");
  model.head_dim = latent.plain + latent.rotated;
  model.rope.first = latent.plain;
  model.score_scale = growth_of_scores(config) / std::sqrt(static_cast<double>(model.head_dim));
  model.latent = latent;
  model.output_bias = latent.bias;
  return model;
}

}  // namespace

/// Reads DeepSeek V3, its successors and Kimi K2: latent attention, experts chosen within groups by corrected sigmoids
/// beside a feed-forward of all tokens, after some layers without experts. Layers behind the last, which predict
/// several tokens, are not read.
decoder_description read_deepseek_v3(const json_value& config) {
  decoder_description model = read_latent_model(config, R"({"hidden_size": 7168, "intermediate_size": 18432,
      "vocab_size": 129280, "num_attention_heads": 128, "num_hidden_layers": 61, "max_position_embeddings": 4096})");
  read_sigmoid_experts(config, model, {.count = 256, .chosen = 8, .width = 2048, .normalised = true, .scale = 2.5}, 3);
  experts_description& e = *model.experts;
  e.groups = count_of(config, "n_group", 8);
  e.chosen_groups = count_of(config, "topk_group", 4);
  require(e.count % e.groups == 0 && (e.groups == 1 || e.count >= 2 * e.groups), config.where(), ": n_group (",
          e.groups, ") must part n_routed_experts (", e.count, ") into groups of at least two");
  require(e.chosen_groups <= e.groups && e.chosen <= e.count / e.groups * e.chosen_groups, config.where(),
          ": topk_group (", e.chosen_groups, ") of n_group (", e.groups, ") groups must hold the ", e.chosen,
          " experts of num_experts_per_tok");
  return model;
}

namespace {

/// Reads DeepSeek V3.2 or a successor; `otherwise` gives missing fields of the indexers.
decoder_description read_indexed(const json_value& config, const indexer_description& otherwise) {
  decoder_description model = read_deepseek_v3(config);
  const auto size = [&](const char* field, index_t usual) {
    return config.integer(field, 1, index_t{1} << 20).value_or(usual);
  };
  const indexer_description i{size("index_n_heads", otherwise.heads), size("index_head_dim", otherwise.dim),
                              size("index_topk", otherwise.chosen), otherwise.pairs};
  const index_t rotated = model.latent->rotated;
  require(model.latent->query_rank > 0, config.where(), ": q_lora_rank must not be null: indexers read the latent row");
  require(i.dim > rotated && i.dim <= 1024, config.where(), ": index_head_dim (", i.dim,
          ") must be above qk_rope_head_dim (", rotated, ") and at most 1024");
  model.indexer = i;
  model.latent->pairs = true;  // whatever rope_interleave says
  const auto* kinds = layer_list(config, "mlp_layer_types", model.layers.size());
  const auto* indexers = layer_list(config, "indexer_types", model.layers.size());
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    if (kinds) model.layers[l].experts = (*kinds)[l] == "sparse";
    const nlohmann::json type = indexers ? (*indexers)[l] : "full";
    model.layers[l].indexer = type == "full";
    require(type == "full" || (l > 0 && type == "shared"), config.where(), ": indexer_types calls layer ", l, " ",
            printable(type.dump()), "; supported: full, and shared above layer 0");
  }
  return model;
}

}  // namespace

/// Reads DeepSeek V3.2: DeepSeek V3 whose layers attend to the keys that their indexers choose.
decoder_description read_deepseek_v32(const json_value& config) {
  const nlohmann::json whole = with_usual(config, R"({"max_position_embeddings": 163840})");
  return read_indexed(json_value(whole, config.where()), {.heads = 64, .dim = 128, .chosen = 2048, .pairs = false});
}

/// Reads GLM 5: DeepSeek V3.2 of other sizes, in which layers may share an indexer.
decoder_description read_glm_moe_dsa(const json_value& config) {
  nlohmann::json whole = with_usual(config, R"({"hidden_size": 6144, "intermediate_size": 12288, "vocab_size": 154880,
      "num_hidden_layers": 78, "num_attention_heads": 64, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "v_head_dim": 256,
      "n_group": 1, "topk_group": 1, "rms_norm_eps": 1e-5, "max_position_embeddings": 202752})");
  nlohmann::json& types = whole["indexer_types"];
  if (types.is_null() && whole.contains("index_topk_pattern")) {
    types = whole["index_topk_pattern"];
    if (const auto* letters = types.get_ptr<const std::string*>()) {
      nlohmann::json words = nlohmann::json::array();
      for (const char c : *letters) words.push_back(c == 'F' ? "full" : c == 'S' ? "shared" : std::string(1, c));
      types = std::move(words);
    }
  }
  if (types.is_null()) {
    const index_t layers = json_value(whole, config.where()).integer("num_hidden_layers", 1, 4096).value_or(1),
                  period = std::max<index_t>(config.integer("index_topk_freq", 0, 65536).value_or(1), 1),
                  offset = config.integer("index_skip_topk_offset", 0, 65536).value_or(2);
    for (index_t l = 0; l < layers; ++l)
      types.push_back(std::max<index_t>(l - offset + 1, 0) % period == 0 ? "full" : "shared");
  }
  return read_indexed(json_value(whole, config.where()), {.heads = 32, .dim = 128, .chosen = 2048, .pairs = true});
}

/// Reads Mistral Small 4: queries grow with position, and a softmax chooses experts.
decoder_description read_mistral4(const json_value& config) {
  nlohmann::json whole = with_usual(config, R"({"q_lora_rank": 1024, "kv_lora_rank": 256, "qk_nope_head_dim": 64})");
  const auto rope = rope_dictionary(config);
  require(rope.has_value(), config.where(), ": mistral4 needs rope_parameters");
  for (const char* name : {"rope_scaling", "rope_parameters"})  // the share of a head that latent attention states
    if (whole.contains(name) && whole[name].is_object()) whole[name].erase("partial_rotary_factor");
  decoder_description model =
      read_latent_model(json_value(whole, config.where()), R"({"hidden_size": 4096, "intermediate_size": 12288,
      "vocab_size": 131072, "num_attention_heads": 32, "num_hidden_layers": 36,
      "max_position_embeddings": 1048576})");
  const double share = static_cast<double>(model.latent->rotated) / static_cast<double>(model.head_dim);
  require(std::abs(rope->number("partial_rotary_factor").value_or(share) - share) < 1e-9, config.where(),
          ": partial_rotary_factor must be qk_rope_head_dim over the channels of a head (", share, ")");
  model.growth = read_growth(config, *rope, model.context);
  read_sigmoid_experts(config, model, {.count = 128, .chosen = 4, .width = 2048, .normalised = true}, 0);
  model.experts->sigmoids = false;
  require(model.experts->scale == 1, config.where(), ": routed_scaling_factor must be 1 in this family");
  require(count_of(config, "n_group", 1) == 1, config.where(),
          ": n_group must be 1; groups of experts are not supported in this family");
  return model;
}

}  // namespace qkgeom
