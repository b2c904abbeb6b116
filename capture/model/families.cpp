// SPDX-License-Identifier: MIT
// The table of decoder families. Facts about a family belong into its reader alone.
#include <algorithm>
#include <array>

#include "capture/model/description.hpp"
#include "capture/model/family_readers.hpp"

namespace qkgeom {
namespace {

constexpr std::array<decoder_family, 39> families{{{"llama", read_llama},
                                                   {"llama4", read_llama4_text, "llama4_text"},
                                                   {"llama4_text", read_llama4_text},
                                                   {"smollm3", read_smollm3},
                                                   {"mistral", read_mistral},
                                                   {"ministral", read_ministral},
                                                   {"ministral3", read_ministral3},
                                                   {"mistral3", read_mistral3_text, "mistral"},
                                                   {"qwen2", read_qwen2},
                                                   {"qwen3", read_qwen3},
                                                   {"qwen3_moe", read_qwen3_moe},
                                                   {"qwen3_5", read_qwen3_5_text, "qwen3_5_text"},
                                                   {"qwen3_5_text", read_qwen3_5_text},
                                                   {"qwen3_5_moe", read_qwen3_5_moe_text, "qwen3_5_moe_text"},
                                                   {"qwen3_5_moe_text", read_qwen3_5_moe_text},
                                                   {"qwen3_next", read_qwen3_next},
                                                   {"mllama", read_mllama_text, "mllama_text_model"},
                                                   {"mllama_text_model", read_mllama_text},
                                                   {"gemma3", read_gemma3_text, "gemma3_text"},
                                                   {"gemma3_text", read_gemma3_text},
                                                   {"gemma4", read_gemma4_text, "gemma4_text"},
                                                   {"gemma4_text", read_gemma4_text},
                                                   {"gemma4_unified", read_gemma4_unified_text, "gemma4_unified_text"},
                                                   {"gemma4_unified_text", read_gemma4_unified_text},
                                                   {"glm", read_glm},
                                                   {"glm4", read_glm4},
                                                   {"glm4_moe", read_glm4_moe},
                                                   {"olmo2", read_olmo2},
                                                   {"olmo3", read_olmo3},
                                                   {"granite", read_granite},
                                                   {"seed_oss", read_seed_oss},
                                                   {"hunyuan_v1_dense", read_hunyuan},
                                                   {"exaone4", read_exaone4},
                                                   {"cohere2", read_cohere2},
                                                   {"phi3", read_phi3},
                                                   {"gemma2", read_gemma2},
                                                   {"gpt_oss", read_gpt_oss},
                                                   {"deepseek_v3", read_deepseek_v3},
                                                   {"gpt_neox", read_gpt_neox}}};

/// The text model of a config.json with images.
decoder_description read_text_part(const json_value& config, const decoder_family& family) {
  const json_value text = config["text_config"].object();
  nlohmann::json named = text.raw();
  if (!named.contains("model_type")) named["model_type"] = family.text_type;
  decoder_description model = family.read(json_value(named, text.where()));
  model.model_type = family.model_type;
  model.tied = config.boolean("tie_word_embeddings").value_or(model.tied);
  if (model.prefixes.front() == "model.") model.prefixes = wrapped_prefixes;
  return model;
}

/// A field that changes what enters the attention, and the families that know it.
struct family_field {
  const char* name;
  std::vector<std::string_view> families;
};

/// Refuses fields of another family, which a model of this one would be computed without.
void refuse_foreign_fields(const json_value& config, const std::string& type) {
  static const std::vector<std::string_view> gemma4{"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"};
  static const std::vector<family_field> fields{
      {"attn_logit_softcapping", {"gemma2", "gemma3", "gemma3_text"}},
      {"attention_multiplier", {"granite"}},
      {"residual_multiplier", {"granite"}},
      {"embedding_multiplier", {"granite"}},
      {"no_rope_layers", {"smollm3", "llama4", "llama4_text"}},
      {"attention_chunk_size", {"llama4", "llama4_text"}},
      {"cross_attention_layers", {"mllama", "mllama_text_model"}},
      {"attention_k_eq_v", gemma4},
      {"global_head_dim", gemma4},
      {"per_layer_config", gemma4},
      {"kv_lora_rank", {"deepseek_v3"}},
      {"linear_num_key_heads", {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"}}};
  for (const family_field& f : fields)
    require(!config.find(f.name) || std::find(f.families.begin(), f.families.end(), type) != f.families.end(),
            config.where(), ": the field ", f.name, " does not belong to model_type ", type);
}

/// Weights in FP8 are read with one scale, or one per block of 128 x 128, and experts in MXFP4.
void refuse_quantisation(const json_value& config) {
  const auto quantised = config.object("quantization_config");
  if (!quantised) return;
  const std::string method = (*quantised)["quant_method"].string();
  const auto* block = quantised->find("weight_block_size");
  require(method == "mxfp4" || (method == "fp8" && (!block || *block == nlohmann::json{128, 128})), quantised->where(),
          ": quant_method '", printable(method), block ? "' with blocks of " + printable(block->dump()) : "'",
          " is not supported; supported: fp8 with one scale per tensor or per block of 128 x 128, mxfp4");
}

/// Holds `layer_types`, which not every family reads, against the layers: none may be taken for full attention.
void check_layer_types(const json_value& config, const decoder_description& model) {
  const auto* types = layer_list(config, "layer_types", model.layers.size());
  if (!types) return;
  require(types->size() == model.layers.size(), config.where(), ": layer_types lists ", types->size(),
          " layers, but num_hidden_layers is ", model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& type = (*types)[i];
    const bool slides = model.layers[i].window || model.layers[i].local_rope;
    const std::string kind = model.layers[i].delta   ? "linear"
                             : model.layers[i].chunk ? "chunked"
                             : slides                ? "sliding"
                                                     : "full";
    require(type == kind + "_attention", config.where(), ": layer_types calls layer ", i, " ", printable(type.dump()),
            ", but a model_type ", model.model_type, " with these fields has ", kind, " attention there");
  }
}

}  // namespace

decoder_description read_description(const nlohmann::json& config) {
  const json_value fields(config, "config.json");
  const std::string type = fields["model_type"].string();
  for (const decoder_family& family : families) {
    if (family.model_type != type) continue;
    for (const auto& part : {std::optional(fields), fields.object("text_config")}) {
      if (!part) continue;
      require(part->boolean("is_causal").value_or(true), part->where(),
              ": is_causal is false, but only causal attention is supported");
      refuse_quantisation(*part);
    }
    const json_value text = fields.object("text_config").value_or(fields);
    refuse_foreign_fields(text, type);
    decoder_description model = family.text_type.empty() ? family.read(fields) : read_text_part(fields, family);
    check_layer_types(text, model);
    return model;
  }
  std::string supported;
  for (const decoder_family& family : families)
    supported += (supported.empty() ? "" : ", ") + std::string(family.model_type);
  fail("config.json: model_type '", printable(type), "' is not supported; supported: ", supported);
}

}  // namespace qkgeom
