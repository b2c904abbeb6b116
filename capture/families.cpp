// SPDX-License-Identifier: MIT
// The table of decoder families. Facts about a family belong here and nowhere else.
#include <array>

#include "capture/description.hpp"

namespace qkgeom {
namespace {

/// Values that a family's configuration class takes when config.json is silent.
struct defaults {
  index_t key_heads = 0;  ///< 0: as many as query heads
  index_t context = 2048;
  double theta = 10000;
  bool tied = false;
};

constexpr index_t largest = index_t{1} << 24;

/// The fields that Llama and the families made after it share.
decoder_description read_common(const json_fields& c, const defaults& d) {
  decoder_description m;
  m.model_type = c.required_string("model_type");
  m.hidden = c.required_integer("hidden_size", 1, largest);
  m.feed_forward = c.required_integer("intermediate_size", 1, largest);
  m.vocabulary = c.required_integer("vocab_size", 1, largest);
  m.query_heads = c.required_integer("num_attention_heads", 1, 65536);
  const bool silent = !c.object().contains("num_key_value_heads");
  m.key_heads =
      c.integer("num_key_value_heads", 1, 65536).value_or(silent && d.key_heads ? d.key_heads : m.query_heads);
  require(m.query_heads % m.key_heads == 0, c.where(), ": num_attention_heads (", m.query_heads,
          ") must be a multiple of num_key_value_heads (", m.key_heads, ")");
  const auto head_dim = c.integer("head_dim", 1, 1024);
  require(head_dim || m.hidden % m.query_heads == 0, c.where(), ": hidden_size (", m.hidden,
          ") must be a multiple of num_attention_heads (", m.query_heads, ") when there is no head_dim");
  m.head_dim = head_dim.value_or(m.hidden / m.query_heads);
  m.context = c.integer("max_position_embeddings", 1, index_t{1} << 30).value_or(d.context);
  m.norm_eps = c.positive("rms_norm_eps").value_or(1e-6);
  m.tied = c.boolean("tie_word_embeddings").value_or(d.tied);
  m.qkv_bias = m.output_bias = c.boolean("attention_bias").value_or(false);
  m.feed_forward_bias = c.boolean("mlp_bias").value_or(false);
  const std::string act = c.string("hidden_act").value_or("silu");
  require(act == "silu", c.where(), ": hidden_act '", act, "' is not supported for this family; supported: silu");
  m.rope = read_rope(c, m.head_dim, m.context, d.theta);
  m.layers.resize(static_cast<std::size_t>(c.required_integer("num_hidden_layers", 1, 4096)));
  return m;
}

decoder_description read_llama(const json_fields& c) { return read_common(c, {}); }

/// A list of a config with one entry a layer, or nullptr.
const nlohmann::json* layer_list(const json_fields& c, const char* name, std::size_t layers) {
  const auto* list = c.find(name);
  require(!list || (list->is_array() && list->size() >= layers), c.where(), ": ", name, " must list the ", layers,
          " layers");
  return list;
}

/// SmolLM3: some layers have no rotary embedding (`no_rope_layers` holds 1 where there IS one), and these alone may
/// slide.
decoder_description read_smollm3(const json_fields& c) {
  decoder_description m = read_common(c, {.key_heads = 4, .context = 32768, .theta = 2e6, .tied = true});
  const index_t interval = c.integer("no_rope_layer_interval", 1, 4096).value_or(4);
  const auto* switches = layer_list(c, "no_rope_layers", m.layers.size());
  const auto* types = layer_list(c, "layer_types", m.layers.size());
  const auto window = c.integer("sliding_window", 1, index_t{1} << 30);
  const bool slides = c.boolean("use_sliding_window").value_or(false) && window;
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    layer_description& layer = m.layers[i];
    layer.rope = (static_cast<index_t>(i) + 1) % interval != 0;
    if (switches) {
      const auto& s = (*switches)[i];
      require(s.is_boolean() || s == 0 || s == 1, c.where(), ": no_rope_layers must hold 0 and 1, not ", s.dump());
      layer.rope = s.is_boolean() ? s.get<bool>() : s.get<int>() == 1;
    }
    bool sliding = !layer.rope;
    if (types) {
      const auto& t = (*types)[i];
      require(t == "full_attention" || t == "sliding_attention", c.where(), ": layer type ", t.dump(),
              " is not supported for this family; supported: full_attention, sliding_attention");
      sliding = t == "sliding_attention";
    }
    if (slides && sliding) layer.window = window;
  }
  return m;
}

constexpr std::array<decoder_family, 2> families{{{"llama", read_llama}, {"smollm3", read_smollm3}}};

}  // namespace

decoder_description read_description(const nlohmann::json& config) {
  const json_fields fields(config, "config.json");
  const std::string type = fields.required_string("model_type");
  for (const decoder_family& family : families)
    if (family.model_type == type) return family.read(fields);
  std::string supported;
  for (const decoder_family& family : families)
    supported += (supported.empty() ? "" : ", ") + std::string(family.model_type);
  fail("config.json: model_type '", type, "' is not supported; supported: ", supported);
}

}  // namespace qkgeom
