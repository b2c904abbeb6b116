// SPDX-License-Identifier: MIT
// Functions that the readers of several families share.
#include <algorithm>
#include <cmath>
#include <map>

#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

constexpr index_t largest_shape = index_t{1} << 24;

}  // namespace

nlohmann::json with_usual(const json_value& config, const char* usual) {
  nlohmann::json fields = nlohmann::json::parse(usual);
  fields.update(config.raw());
  return fields;
}

decoder_description read_shape(const json_value& given, const char* usual) {
  nlohmann::json fields = nlohmann::json::parse(usual);
  for (const auto& [name, value] : given.raw().items())  // in these two, null does not mean the usual value
    if (!value.is_null() || name == "num_key_value_heads" || name == "head_dim") fields[name] = value;
  const json_value config(fields, given.where());
  decoder_description model;
  model.model_type = config["model_type"].string();
  model.hidden = config["hidden_size"].integer(1, largest_shape);
  model.feed_forward = config["intermediate_size"].integer(1, largest_shape);
  model.vocabulary = config["vocab_size"].integer(1, largest_shape);
  model.query_heads = config["num_attention_heads"].integer(1, 65536);
  model.key_heads = count_of(config, "num_key_value_heads", model.query_heads);
  require(model.query_heads % model.key_heads == 0, config.where(), ": num_attention_heads (", model.query_heads,
          ") must be a multiple of num_key_value_heads (", model.key_heads, ")");
  const auto head_dim = config.integer("head_dim", 1, 1024);
  require(head_dim || model.hidden % model.query_heads == 0, config.where(), ": hidden_size (", model.hidden,
          ") must be a multiple of num_attention_heads (", model.query_heads, ") when there is no head_dim");
  model.head_dim = head_dim.value_or(model.hidden / model.query_heads);
  model.context = config.integer("max_position_embeddings", 1, index_t{1} << 30).value_or(2048);
  model.norm_eps = config.positive("rms_norm_eps").value_or(1e-6);
  model.tied = config.boolean("tie_word_embeddings").value_or(false);
  model.layers.resize(config["num_hidden_layers"].integer(1, 4096));
  return model;
}

decoder_description read_common(const json_value& config, const char* usual, const rope_defaults& rope) {
  decoder_description model = read_shape(config, usual);
  model.act = read_activation(config, "hidden_act", "silu");
  model.rope = read_rope(config, model.head_dim, model.context, rope);
  return model;
}

const nlohmann::json* layer_list(const json_value& config, const char* name, std::size_t layers) {
  const auto* list = config.find(name);
  require(!list || (list->is_array() && list->size() >= layers), config.where(), ": ", name, " must list the ", layers,
          " layers");
  return list;
}

void set_window(decoder_description& model, std::optional<index_t> window) {
  for (layer_description& layer : model.layers) layer.window = window;
}

void read_rotating_layers(const json_value& config, decoder_description& model) {
  const index_t interval = config.integer("no_rope_layer_interval", 1, index_t{1} << 30).value_or(4);
  const auto* switches = layer_list(config, "no_rope_layers", model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    layer_description& layer = model.layers[i];
    layer.rope = (static_cast<index_t>(i) + 1) % interval != 0;
    if (!switches) continue;
    const auto& s = (*switches)[i];
    require(s.is_boolean() || s == 0 || s == 1, config.where(), ": no_rope_layers must hold 0 and 1, not ",
            printable(s.dump()));
    layer.rope = s.is_boolean() ? s.get<bool>() : s.get<int>() == 1;
  }
}

void set_sparse_layers(const json_value& config, decoder_description& model) {
  const index_t step = count_of(config, "decoder_sparse_step", 1);
  const auto* dense = config.find("mlp_only_layers");
  require(!dense || dense->is_array(), config.where(), ": mlp_only_layers must be a list");
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].experts = model.experts->count > 0 && (static_cast<index_t>(i) + 1) % step == 0 &&
                              (!dense || std::find(dense->begin(), dense->end(), i) == dense->end());
}

void read_attention_bias(const json_value& config, decoder_description& model) {
  model.qkv_bias = model.output_bias = config.boolean("attention_bias").value_or(false);
}

void norm_outputs_alone(decoder_description& model) {
  model.names.attention_norm = model.names.feed_forward_norm = "";
  model.names.attention_out_norm = "post_attention_layernorm";
  model.names.feed_forward_out_norm = "post_feedforward_layernorm";
}

experts_description read_experts(const json_value& config, const char* count, index_t least,
                                 const experts_description& otherwise) {
  experts_description e = otherwise;
  e.count = config.integer(count, least, 65536)
                .value_or(config.integer("num_local_experts", least, 65536).value_or(otherwise.count));
  e.chosen = count_of(config, "num_experts_per_tok", otherwise.chosen);
  e.width = config.integer("moe_intermediate_size", 1, index_t{1} << 24).value_or(otherwise.width);
  e.normalised = config.boolean("norm_topk_prob").value_or(otherwise.normalised);
  require(e.count == 0 || e.chosen <= e.count, config.where(), ": num_experts_per_tok (", e.chosen,
          ") must be at most ", count, " (", e.count, ")");
  return e;
}

void read_sigmoid_experts(const json_value& config, decoder_description& model, const experts_description& otherwise,
                          index_t dense) {
  experts_description e = read_experts(config, "n_routed_experts", 1, otherwise);
  e.sigmoids = true;
  e.scale = config.positive("routed_scaling_factor").value_or(otherwise.scale);
  e.shared_width = e.width * config.integer("n_shared_experts", 1, 256).value_or(1);
  const index_t first = config.integer("first_k_dense_replace", 0, 65536).value_or(dense);
  for (std::size_t i = 0; i < model.layers.size(); ++i) model.layers[i].experts = static_cast<index_t>(i) >= first;
  model.experts = e;
}

void set_alternating_windows(const json_value& config, decoder_description& model, index_t period) {
  const auto window = read_window(config, 4096);
  period = config.integer("sliding_window_pattern", 1, 4096).value_or(period);
  set_windows(config, model, window,
              [&](std::size_t i) { return window && (static_cast<index_t>(i) + 1) % period != 0; });
}

void read_ropes_by_type(const json_value& config, decoder_description& model, double full_theta, double sliding_theta) {
  const auto both = config.object("rope_parameters");
  auto full = both ? both->object("full_attention") : std::nullopt;
  const auto sliding = both ? both->object("sliding_attention") : std::nullopt;
  require(!both || full || sliding, config.where(), ": rope_parameters must hold full_attention and sliding_attention");
  // rope_scaling overrides the full layers' dictionary.
  nlohmann::json merged = full ? full->raw() : nlohmann::json{{"rope_type", "default"}};
  if (const auto scaling = config.object("rope_scaling")) merged.update(scaling->raw());
  const std::string where = config.where() + ": rope_parameters";
  model.rope =
      read_rope_dictionary(config, json_value(merged, where), model.head_dim, model.context, {.theta = full_theta});
  model.local_rope = read_rope_dictionary(config, sliding, model.head_dim, model.context, {.theta = sliding_theta});
}

std::optional<query_growth> read_growth(const json_value& config, const json_value& rope, index_t context) {
  const double beta = rope.number("llama_4_scaling_beta").value_or(0);
  if (beta == 0) return std::nullopt;
  const auto original =
      original_context_holder(config, rope).integer("original_max_position_embeddings", 1, index_t{1} << 30);
  return query_growth{beta, original.value_or(context)};
}

std::optional<index_t> read_window(const json_value& config, std::optional<index_t> otherwise) {
  if (!config.raw().contains("sliding_window")) return otherwise;
  return config.integer("sliding_window", 1, index_t{1} << 30);
}

std::optional<index_t> read_switched_window(const json_value& config, std::optional<index_t> otherwise) {
  const auto window = read_window(config, otherwise);
  return config.boolean("use_sliding_window").value_or(false) ? window : std::nullopt;
}

activation read_activation(const json_value& config, const char* field, const std::string& otherwise) {
  static const std::map<std::string, activation> known{{"silu", activation::silu},
                                                       {"swish", activation::silu},
                                                       {"gelu", activation::gelu},
                                                       {"gelu_python", activation::gelu},
                                                       {"gelu_pytorch_tanh", activation::gelu_tanh},
                                                       {"gelu_python_tanh", activation::gelu_tanh},
                                                       {"gelu_new", activation::gelu_tanh},
                                                       {"gelu_fast", activation::gelu_tanh},
                                                       {"gelu_accurate", activation::gelu_tanh}};
  std::string supported;
  for (const auto& [name, meaning] : known) supported += (supported.empty() ? "" : ", ") + name;
  const std::string act = config.string(field).value_or(otherwise);
  const auto found = known.find(act);
  require(found != known.end(), config.where(), ": ", field, " '", printable(act),
          "' is not supported; supported: ", supported);
  return found->second;
}

namespace {

/// Returns the text model's part of config.json, with Ministral 3's rotary parameters if it has none.
nlohmann::json& text_part(nlohmann::json& config) {
  nlohmann::json& text = config.contains("text_config") ? config["text_config"] : config;
  require(text.is_object(), "config.json: text_config must hold a JSON object");
  if (text.value("model_type", "") == "ministral3" && !rope_dictionary(json_value(text, "config.json")))
    text["rope_parameters"] = ministral3_rope();
  return text;
}

/// Returns the model type of the text part, which a config may name outside of it.
std::string type_of(const nlohmann::json& text, const nlohmann::json& config) {
  return text.value("model_type", config.value("model_type", ""));
}

}  // namespace

nlohmann::json with_rope_theta(nlohmann::json config, double theta) {
  require(theta > 0 && std::isfinite(theta), "the base of the rotary frequencies must be positive, not ", theta);
  nlohmann::json& text = text_part(config);
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (text.contains(name) && text[name].is_object()) {
      require(!text[name].contains("full_attention"),
              "the base cannot be replaced in a model with a rotary embedding for each type of layer");
      if (text[name].contains("rope_theta")) text[name]["rope_theta"] = theta;
    }
  const std::string type = type_of(text, config);
  require(!type.starts_with("gemma3") && !type.starts_with("gemma4"),
          "the base cannot be replaced in a model with a rotary embedding for each type of layer");
  text["rope_theta"] = text["rotary_emb_base"] = theta;
  return config;
}

nlohmann::json with_rope_scaling(nlohmann::json config, const std::string& scaling) {
  nlohmann::json patch = rope_scaling_fields(scaling);
  nlohmann::json& text = text_part(config);
  const bool by_type = text.contains("rope_parameters") && text["rope_parameters"].contains("full_attention");
  require(!by_type && !type_of(text, config).starts_with("gemma4"),
          "rope scaling cannot be replaced in a model with a rotary embedding for each type of layer");
  // The old dictionary keeps its base frequency and loses its scaling.
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (text.contains(name) && text[name].is_object() && !text[name].empty()) {
      for (const char* kept : {"rope_theta", "partial_rotary_factor", "llama_4_scaling_beta"})
        if (text[name].contains(kept) && !patch.contains(kept)) patch[kept] = text[name][kept];
      // Ministral 3's queries grow from the original context on.
      constexpr const char* original = "original_max_position_embeddings";
      const json_value outside(text, "config.json"), inside(text[name], "config.json", name);
      const auto* const from = original_context_holder(outside, inside).find(original);
      if (patch.contains("llama_4_scaling_beta") && from && !patch.contains(original)) patch[original] = *from;
      break;
    }
  if (patch["rope_type"] != "default") text.erase("original_max_position_embeddings");
  text.erase("rope_parameters");
  text["rope_scaling"] = patch;
  return config;
}

}  // namespace qkgeom
