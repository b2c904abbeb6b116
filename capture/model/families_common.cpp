// SPDX-License-Identifier: MIT
// What the readers of several families share.
#include <cmath>
#include <map>

#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

constexpr index_t largest = index_t{1} << 24;

index_t integer_or(const json_fields& c, const char* name, index_t high, index_t otherwise) {
  return otherwise > 0 ? c.integer(name, 1, high).value_or(otherwise) : c.required_integer(name, 1, high);
}

}  // namespace

decoder_description read_shape(const json_fields& c, const family_defaults& d) {
  decoder_description m;
  m.model_type = c.required_string("model_type");
  m.hidden = integer_or(c, "hidden_size", largest, d.hidden);
  m.feed_forward = integer_or(c, "intermediate_size", largest, d.feed_forward);
  m.vocabulary = integer_or(c, "vocab_size", largest, d.vocabulary);
  m.query_heads = integer_or(c, "num_attention_heads", 65536, d.query_heads);
  const bool silent = !c.object().contains("num_key_value_heads");
  m.key_heads =
      c.integer("num_key_value_heads", 1, 65536).value_or(silent && d.key_heads ? d.key_heads : m.query_heads);
  require(m.query_heads % m.key_heads == 0, c.where(), ": num_attention_heads (", m.query_heads,
          ") must be a multiple of num_key_value_heads (", m.key_heads, ")");
  auto head_dim = c.integer("head_dim", 1, 1024);
  if (!head_dim && d.head_dim > 0 && !c.object().contains("head_dim")) head_dim = d.head_dim;
  require(head_dim || m.hidden % m.query_heads == 0, c.where(), ": hidden_size (", m.hidden,
          ") must be a multiple of num_attention_heads (", m.query_heads, ") when there is no head_dim");
  m.head_dim = head_dim.value_or(m.hidden / m.query_heads);
  m.context = c.integer("max_position_embeddings", 1, index_t{1} << 30).value_or(d.context);
  m.norm_eps = c.positive("rms_norm_eps").value_or(d.norm_eps);
  m.tied = c.boolean("tie_word_embeddings").value_or(d.tied);
  m.layers.resize(integer_or(c, "num_hidden_layers", 4096, d.layers));
  return m;
}

decoder_description read_common(const json_fields& c, const family_defaults& d) {
  decoder_description m = read_shape(c, d);
  m.act = read_activation(c, "hidden_act", "silu");
  m.rope = read_rope(c, m.head_dim, m.context, d.rope);
  return m;
}

const nlohmann::json* layer_list(const json_fields& c, const char* name, std::size_t layers) {
  const auto* list = c.find(name);
  require(!list || (list->is_array() && list->size() >= layers), c.where(), ": ", name, " must list the ", layers,
          " layers");
  return list;
}

std::optional<index_t> read_window(const json_fields& c, std::optional<index_t> otherwise) {
  if (!c.object().contains("sliding_window")) return otherwise;
  return c.integer("sliding_window", 1, index_t{1} << 30);
}

activation read_activation(const json_fields& c, const char* field, const std::string& otherwise) {
  static const std::map<std::string, activation> known{{"silu", activation::silu},
                                                       {"gelu", activation::gelu},
                                                       {"gelu_pytorch_tanh", activation::gelu_tanh},
                                                       {"gelu_new", activation::gelu_tanh},
                                                       {"gelu_fast", activation::gelu_tanh}};
  const std::string act = c.string(field).value_or(otherwise);
  const auto found = known.find(act);
  require(found != known.end(), c.where(), ": ", field, " '", act,
          "' is not supported; supported: silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast");
  return found->second;
}

namespace {

std::vector<double> numbers_after_colons(const std::string& text, std::size_t count) {
  std::vector<double> numbers;
  for (std::size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1)) {
    std::size_t end = 0;
    double x = 0;
    try {
      x = std::stod(text.substr(at + 1), &end);
    } catch (const std::exception&) {
      end = 0;
    }
    const std::size_t next = at + 1 + end;
    require(end > 0 && x > 0 && (next == text.size() || text[next] == ':'), "rope scaling '", text,
            "': each number must be positive");
    numbers.push_back(x);
  }
  require(numbers.size() == count, "rope scaling '", text, "' must have ", count, " numbers, not ", numbers.size());
  return numbers;
}

}  // namespace

namespace {

/// The part of a config that describes the text model, with its rotary parameters said where they are known silently.
nlohmann::json& text_part(nlohmann::json& config) {
  nlohmann::json& text = config.contains("text_config") ? config["text_config"] : config;
  require(text.is_object(), "config.json: text_config must hold a JSON object");
  if (text.value("model_type", "") == "ministral3" && !rope_dictionary(json_fields(text, "config.json")))
    text["rope_parameters"] = ministral3_rope();
  return text;
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
  require(text.value("model_type", "") != "gemma3" && text.value("model_type", "") != "gemma3_text",
          "the base cannot be replaced in a model with a rotary embedding for each type of layer");
  text["rope_theta"] = text["rotary_emb_base"] = theta;
  return config;
}

nlohmann::json with_rope_scaling(nlohmann::json config, const std::string& scaling) {
  const std::string type = scaling.substr(0, scaling.find(':'));
  nlohmann::json patch{{"rope_type", type == "none" ? "default" : type}};
  const auto set = [&](std::initializer_list<const char*> names) {
    const auto numbers = numbers_after_colons(scaling, names.size());
    std::size_t i = 0;
    for (const char* name : names) {
      const double x = numbers[i++];
      patch[name] = x;
      if (x == std::floor(x) && x < 1e9) patch[name] = static_cast<index_t>(x);  // tokens are whole numbers
    }
  };
  if (type == "none")
    set({});
  else if (type == "linear" || type == "dynamic")
    set({"factor"});
  else if (type == "yarn")
    set({"factor", "original_max_position_embeddings"});
  else if (type == "llama3")
    set({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  else
    fail("rope scaling '", scaling, "' is not known; known: none, linear:FACTOR, dynamic:FACTOR, ",
         "yarn:FACTOR:CONTEXT, llama3:FACTOR:LOW:HIGH:CONTEXT");
  nlohmann::json& text = text_part(config);
  require(!text.contains("rope_parameters") || !text["rope_parameters"].contains("full_attention"),
          "rope scaling cannot be replaced in a model with a rotary embedding for each type of layer");
  // The old dictionary's base frequency stays, its scaling goes.
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (text.contains(name) && text[name].is_object() && !text[name].empty()) {
      for (const char* kept : {"rope_theta", "partial_rotary_factor", "llama_4_scaling_beta"})
        if (text[name].contains(kept) && !patch.contains(kept)) patch[kept] = text[name][kept];
      // The growth of queries with their position is counted from it.
      constexpr const char* original = "original_max_position_embeddings";
      const json_fields outside(text, "config.json"), inside(text[name], outside.where() + ": " + name);
      const auto* const from = says_original_context(outside, inside).find(original);
      if (patch.contains("llama_4_scaling_beta") && from && !patch.contains(original)) patch[original] = *from;
      break;
    }
  if (type != "none") text.erase("original_max_position_embeddings");
  text.erase("rope_parameters");
  text["rope_scaling"] = patch;
  return config;
}

}  // namespace qkgeom
