// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "capture/model/description.hpp"

namespace qkgeom {

/// Values that a family's configuration class takes when config.json is silent. 0: the field must be there.
struct family_defaults {
  index_t hidden = 0, feed_forward = 0, vocabulary = 0, query_heads = 0, layers = 0;
  index_t key_heads = 0;  ///< 0: as many as query heads
  index_t head_dim = 0;   ///< 0: hidden / query heads
  index_t context = 2048;
  double norm_eps = 1e-6;
  bool tied = false;
  rope_defaults rope{};
};

/// The fields that Llama and the families made after it share, but for rotary embedding, activation and biases.
decoder_description read_shape(const json_fields& config, const family_defaults& d);

/// `read_shape`, rotary embedding and silu.
decoder_description read_common(const json_fields& config, const family_defaults& d);

/// A list of a config with one entry a layer, or nullptr.
const nlohmann::json* layer_list(const json_fields& config, const char* name, std::size_t layers);

/// Gives the window to the layers that `layer_types` calls sliding or, where there is no such list, for which
/// `slides(i)` holds.
template <class Slides>
void set_windows(const json_fields& config, decoder_description& m, std::optional<index_t> window, Slides&& slides) {
  const auto* types = layer_list(config, "layer_types", m.layers.size());
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    bool sliding = slides(i);
    if (types) {
      const auto& t = (*types)[i];
      require(t == "full_attention" || t == "sliding_attention", config.where(), ": layer type ", t.dump(),
              " is not supported for this family; supported: full_attention, sliding_attention");
      sliding = t == "sliding_attention";
      require(!sliding || window, config.where(), ": layer_types calls layer ", i,
              " sliding_attention, but sliding_window or use_sliding_window gives it no window");
    }
    if (sliding) m.layers[i].window = window;
  }
}

/// `sliding_window`: absent means `otherwise`, null none.
std::optional<index_t> read_window(const json_fields& config, std::optional<index_t> otherwise);

/// Refuses a hidden_act (or another field's activation) that is not one of the listed ones.
activation read_activation(const json_fields& config, const char* field, const std::string& otherwise);

/// The rotary parameters of Ministral 3 where config.json names none.
const nlohmann::json& ministral3_rope();

decoder_description read_llama(const json_fields& config);
decoder_description read_smollm3(const json_fields& config);
decoder_description read_mistral(const json_fields& config);
decoder_description read_ministral(const json_fields& config);
decoder_description read_ministral3(const json_fields& config);
decoder_description read_mistral3(const json_fields& config);
decoder_description read_qwen2(const json_fields& config);
decoder_description read_qwen3(const json_fields& config);
decoder_description read_qwen3_moe(const json_fields& config);
decoder_description read_mllama(const json_fields& config);
decoder_description read_mllama_text(const json_fields& config);
decoder_description read_gemma3(const json_fields& config);
decoder_description read_gemma3_text(const json_fields& config);
decoder_description read_glm(const json_fields& config);
decoder_description read_glm4(const json_fields& config);
decoder_description read_olmo2(const json_fields& config);
decoder_description read_gpt_neox(const json_fields& config);

}  // namespace qkgeom
