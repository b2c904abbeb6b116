// SPDX-License-Identifier: MIT
// The table of decoder families. Facts about a family belong in its reader alone.
#include <algorithm>
#include <span>

#include "capture/model/description.hpp"
#include "capture/model/family_readers.hpp"
#include "qkgeom/core/budget.hpp"

namespace qkgeom {

/// Readers of the families, in families_*.cpp.
family_reader read_llama, read_llama4_text, read_smollm3, read_mistral, read_ministral, read_ministral3,
    read_mistral3_text, read_mistral4, read_qwen2, read_qwen3, read_qwen3_moe, read_qwen3_5_text, read_qwen3_5_moe_text,
    read_qwen3_next, read_mllama_text, read_gemma3_text, read_gemma4_text, read_gemma4_unified_text, read_glm,
    read_glm4, read_glm4_moe, read_olmo2, read_olmo3, read_olmo_hybrid, read_lfm3, read_granite, read_granite_hybrid,
    read_seed_oss, read_hunyuan, read_exaone4, read_cohere2, read_phi3, read_gemma2, read_gpt_oss, read_deepseek_v3,
    read_deepseek_v32, read_glm_moe_dsa, read_gpt_neox;

namespace {

/// docs/capture.md has a row for each line with a name here, with its `model_type`s and those of the next lines.
const std::vector<decoder_family> families{
    {.model_type = "llama", .read = read_llama, .name = "Llama 1, 2, 3"},
    {.model_type = "mllama",
     .read = read_mllama_text,
     .text_type = "mllama_text_model",
     .name = "Llama 3.2 Vision (text layers)",
     .fields = {"cross_attention_layers"}},
    {.model_type = "llama4",
     .read = read_llama4_text,
     .text_type = "llama4_text",
     .name = "Llama 4 (chunks, layers without RoPE, experts)",
     .fields = {"no_rope_layers", "attention_chunk_size"}},
    {.model_type = "smollm3",
     .read = read_smollm3,
     .name = "SmolLM3 (RoPE and NoPE layers)",
     .fields = {"no_rope_layers"}},
    {.model_type = "mistral", .read = read_mistral, .name = "Mistral, Ministral, Ministral 3, Mistral 3"},
    {.model_type = "ministral", .read = read_ministral},
    {.model_type = "ministral3", .read = read_ministral3},
    {.model_type = "mistral3",
     .read = read_mistral3_text,
     .text_type = "mistral",
     .text_type_alone = false,
     .fields = {"kv_lora_rank"}},
    {.model_type = "mistral4",
     .read = read_mistral4,
     .name = "Mistral Small 4 (latent attention, experts)",
     .fields = {"kv_lora_rank"}},
    {.model_type = "qwen2", .read = read_qwen2, .name = "Qwen 2, 2.5, 3"},
    {.model_type = "qwen3", .read = read_qwen3},
    {.model_type = "qwen3_moe", .read = read_qwen3_moe, .name = "Qwen 3 with experts"},
    {.model_type = "qwen3_5",
     .read = read_qwen3_5_text,
     .text_type = "qwen3_5_text",
     .name = "Qwen 3.5, Qwen 3 Next (delta nets between attention, with and without experts)",
     .fields = {"linear_num_key_heads"}},
    {.model_type = "qwen3_5_moe",
     .read = read_qwen3_5_moe_text,
     .text_type = "qwen3_5_moe_text",
     .fields = {"linear_num_key_heads"}},
    {.model_type = "qwen3_next", .read = read_qwen3_next, .fields = {"linear_num_key_heads"}},
    {.model_type = "gemma2", .read = read_gemma2, .name = "Gemma 2 (soft caps)", .fields = {"attn_logit_softcapping"}},
    {.model_type = "gemma3",
     .read = read_gemma3_text,
     .text_type = "gemma3_text",
     .name = "Gemma 3 (sliding windows)",
     .fields = {"attn_logit_softcapping"}},
    {.model_type = "gemma4",
     .read = read_gemma4_text,
     .text_type = "gemma4_text",
     .name = "Gemma 4 (dense: two sizes of heads)",
     .fields = {"attention_k_eq_v", "global_head_dim", "per_layer_config"}},
    {.model_type = "gemma4_unified",
     .read = read_gemma4_unified_text,
     .text_type = "gemma4_unified_text",
     .fields = {"attention_k_eq_v", "global_head_dim", "per_layer_config"}},
    {.model_type = "glm", .read = read_glm, .name = "GLM 4"},
    {.model_type = "glm4", .read = read_glm4},
    {.model_type = "glm4_moe", .read = read_glm4_moe, .name = "GLM 4.5 and 4.6 with experts"},
    {.model_type = "olmo2", .read = read_olmo2, .name = "OLMo 2, OLMo 3"},
    {.model_type = "olmo3", .read = read_olmo3},
    {.model_type = "olmo_hybrid",
     .read = read_olmo_hybrid,
     .name = "OLMo Hybrid (delta nets between attention)",
     .fields = {"linear_num_key_heads"}},
    {.model_type = "lfm3",
     .read = read_lfm3,
     .name = "LFM3 (convolutions between attention)",
     .fields = {"conv_L_cache"}},
    {.model_type = "phi3", .read = read_phi3, .name = "Phi 3, Phi 4 mini (longrope)"},
    {.model_type = "granite",
     .read = read_granite,
     .name = "Granite 3 and 4 (dense, with and without state spaces)",
     .fields = {"attention_multiplier", "residual_multiplier", "embedding_multiplier"}},
    {.model_type = "granitemoehybrid",
     .read = read_granite_hybrid,
     .fields = {"attention_multiplier", "residual_multiplier", "embedding_multiplier"}},
    {.model_type = "seed_oss", .read = read_seed_oss, .name = "Seed-OSS"},
    {.model_type = "hunyuan_v1_dense", .read = read_hunyuan, .name = "HunYuan (dense)"},
    {.model_type = "exaone4", .read = read_exaone4, .name = "EXAONE 4, EXAONE 4.5"},
    {.model_type = "exaone4_5", .read = read_exaone4, .text_type = "exaone4", .text_type_alone = false},
    {.model_type = "cohere2", .read = read_cohere2, .name = "Command R7B and A (Cohere 2)"},
    {.model_type = "gpt_oss", .read = read_gpt_oss, .name = "GPT-OSS (sinks, experts in MXFP4)"},
    {.model_type = "deepseek_v3",
     .read = read_deepseek_v3,
     .name = "DeepSeek V3 (latent attention)",
     .fields = {"kv_lora_rank"}},
    {.model_type = "deepseek_v32",
     .read = read_deepseek_v32,
     .name = "DeepSeek V3.2, GLM 5 (latent attention to the keys that an indexer chooses)",
     .fields = {"kv_lora_rank", "index_topk"}},
    {.model_type = "glm_moe_dsa", .read = read_glm_moe_dsa, .fields = {"kv_lora_rank", "index_topk"}},
    {.model_type = "gpt_neox", .read = read_gpt_neox, .name = "Pythia, GPT-NeoX"}};

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

/// Refuses fields of other families that change what enters the attention, since this family's reader ignores them.
void refuse_foreign_fields(const json_value& config, const decoder_family& family, const std::string& type) {
  for (const decoder_family& other : families)
    for (const std::string_view field : other.fields)
      require(!config.find(std::string(field).c_str()) ||
                  std::find(family.fields.begin(), family.fields.end(), field) != family.fields.end(),
              config.where(), ": the field ", field, " does not belong to model_type ", type);
}

/// Refuses quantised weights other than FP8 with one scale or one per block of 128 x 128, and experts in MXFP4.
void refuse_quantisation(const json_value& config) {
  const auto quantised = config.object("quantization_config");
  if (!quantised) return;
  const std::string method = (*quantised)["quant_method"].string();
  const auto* block = quantised->find("weight_block_size");
  require(method == "mxfp4" || (method == "fp8" && (!block || *block == nlohmann::json{128, 128})), quantised->where(),
          ": quant_method '", printable(method), block ? "' with blocks of " + printable(block->dump()) : "'",
          " is not supported; supported: fp8 with one scale per tensor or per block of 128 x 128, mxfp4");
}

/// Compares `layer_types`, which not every family reads, with the layers: none may be taken for full attention.
void check_layer_types(const json_value& config, const decoder_description& model) {
  const auto* types = layer_list(config, "layer_types", model.layers.size());
  if (!types) return;
  require(types->size() == model.layers.size(), config.where(), ": layer_types lists ", types->size(),
          " layers, but num_hidden_layers is ", model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& type = (*types)[i];
    const bool slides = model.layers[i].window || model.layers[i].local_rope;
    const net_kind net = model.layers[i].delta ? model.delta->kind : net_kind::delta;
    const std::string kind = net == net_kind::state_space   ? "mamba"
                             : net == net_kind::convolution ? "conv"
                             : model.layers[i].delta        ? "linear_attention"
                             : model.layers[i].chunk        ? "chunked_attention"
                             : slides                       ? "sliding_attention"
                             : model.indexer                ? "indexed_attention"
                                                            : "full_attention";
    const bool granite = model.model_type == "granitemoehybrid";  // transformers 5 has other words for its layers
    require(type == kind || (granite && type == (kind == "mamba" ? "linear_attention" : "attention")), config.where(),
            ": layer_types calls layer ", i, " ", printable(type.dump()), ", but a model_type ", model.model_type,
            " with these fields has ", kind, " there");
  }
}

}  // namespace

std::span<const decoder_family> decoder_families() { return families; }

std::vector<std::string_view> model_types(const decoder_family& family) {
  if (!family.text_type_alone || family.text_type.empty()) return {family.model_type};
  return {family.model_type, family.text_type};
}

decoder_description read_description(const nlohmann::json& config) {
  const json_value fields(config, "config.json");
  const std::string type = fields["model_type"].string();
  for (const decoder_family& family : families) {
    const bool alone = family.text_type_alone && family.text_type == type;
    if (family.model_type != type && !alone) continue;
    for (const auto& part : {std::optional(fields), fields.object("text_config")}) {
      if (!part) continue;
      require(part->boolean("is_causal").value_or(true), part->where(),
              ": is_causal is false, but only causal attention is supported");
      refuse_quantisation(*part);
    }
    const json_value text = fields.object("text_config").value_or(fields);
    refuse_foreign_fields(text, family, type);
    decoder_description model =
        family.text_type.empty() || alone ? family.read(fields) : read_text_part(fields, family);
    check_layer_types(text, model);
    const index_t experts = model.experts ? model.experts->count * model.n_layers() : 0;
    require(experts <= most_experts, "config.json: ", model.experts ? model.experts->count : 0, " experts in ",
            model.n_layers(), " layers are more than the ", most_experts, " allowed");
    return model;
  }
  require(
      !type.starts_with("glm5_next"), "config.json: model_type ", type,
      " is not supported: its layers mix several residual streams, its delta nets fade by channel, and its indexers "
      "score pools of keys instead of keys");
  std::string supported;
  for (const decoder_family& family : families)
    for (const std::string_view name : model_types(family))
      supported += (supported.empty() ? "" : ", ") + std::string(name);
  fail("config.json: model_type '", printable(type), "' is not supported; supported: ", supported);
}

}  // namespace qkgeom
