// SPDX-License-Identifier: MIT
// The table of decoder families. Facts about a family belong into its reader alone.
#include <array>

#include "capture/model/description.hpp"
#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

constexpr std::array<decoder_family, 25> families{{{"llama", read_llama},
                                                   {"smollm3", read_smollm3},
                                                   {"mistral", read_mistral},
                                                   {"ministral", read_ministral},
                                                   {"ministral3", read_ministral3},
                                                   {"mistral3", read_mistral3},
                                                   {"qwen2", read_qwen2},
                                                   {"qwen3", read_qwen3},
                                                   {"qwen3_moe", read_qwen3_moe},
                                                   {"mllama", read_mllama},
                                                   {"mllama_text_model", read_mllama_text},
                                                   {"gemma3", read_gemma3},
                                                   {"gemma3_text", read_gemma3_text},
                                                   {"glm", read_glm},
                                                   {"glm4", read_glm4},
                                                   {"olmo2", read_olmo2},
                                                   {"olmo3", read_olmo3},
                                                   {"granite", read_granite},
                                                   {"seed_oss", read_seed_oss},
                                                   {"hunyuan_v1_dense", read_hunyuan},
                                                   {"exaone4", read_exaone4},
                                                   {"cohere2", read_cohere2},
                                                   {"phi3", read_phi3},
                                                   {"gemma2", read_gemma2},
                                                   {"gpt_neox", read_gpt_neox}}};

/// Layers that config.json calls other than full must be what it calls them: no kind of attention is taken for another.
void check_layer_types(const json_value& config, const decoder_description& model) {
  const auto* types = config.find("layer_types");
  if (!types) return;
  require(types->is_array() && types->size() == model.layers.size(), config.where(), ": layer_types must list the ",
          model.layers.size(), " layers");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& layer = model.layers[i];
    const auto& type = (*types)[i];
    const bool sliding = layer.window || layer.local_rope;
    require(type == "full_attention" || (type == "sliding_attention" && sliding), config.where(), ": layer type ",
            printable(type.dump()), " of layer ", i, " is not supported for model_type ", model.model_type);
  }
}

}  // namespace

decoder_description read_description(const nlohmann::json& config) {
  const json_value fields(config, "config.json");
  const std::string type = fields["model_type"].string();
  for (const decoder_family& family : families) {
    if (family.model_type != type) continue;
    for (const auto& part : {std::optional(fields), fields.object("text_config")})
      require(!part || part->boolean("is_causal").value_or(true), part ? part->where() : "",
              ": is_causal is false, but only causal attention is supported");
    decoder_description model = family.read(fields);
    for (const auto& part : {std::optional(fields), fields.object("text_config")})
      if (part) check_layer_types(*part, model);
    return model;
  }
  std::string supported;
  for (const decoder_family& family : families)
    supported += (supported.empty() ? "" : ", ") + std::string(family.model_type);
  fail("config.json: model_type '", printable(type), "' is not supported; supported: ", supported);
}

}  // namespace qkgeom
