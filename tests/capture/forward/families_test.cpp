// SPDX-License-Identifier: MIT
// Each family's odd features: the fixture that agrees with transformers (forward_test.cpp) does so no more when one of
// them is switched off, so that the fixture tests it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

struct feature {
  std::string family, name;
  std::function<void(decoder_description&)> off;
};

void no_windows(decoder_description& d) {
  for (auto& l : d.layers) l.window.reset();
}
void windows_everywhere(decoder_description& d) {
  for (auto& l : d.layers) l.window = 33;
}
void default_rope(decoder_description& d) {
  d.rope.inv_freq = default_frequencies(d.rope.theta, d.rope.rotary_dim);
  d.rope.attention_factor = 1;
  d.rope.dynamic.reset();
}
void no_growth(decoder_description& d) { d.growth.reset(); }
void no_qk_norm(decoder_description& d) { d.qk = qk_norm::none; }
void no_qkv_bias(decoder_description& d) { d.qkv_bias = false; }
void no_output_bias(decoder_description& d) { d.output_bias = false; }
void llama_norm(decoder_description& d) { d.norm = norm_kind::llama; }
void no_out_norms(decoder_description& d) { d.names.attention_out_norm = d.names.feed_forward_out_norm = ""; }
void half_style(decoder_description& d) { d.rope.interleaved = false; }
void no_residual_scale(decoder_description& d) { d.residual_scale = 1; }
void silu(decoder_description& d) { d.act = activation::silu; }
void whole_rotation(decoder_description& d) {
  d.rope.rotary_dim = d.head_dim;
  d.rope.inv_freq = default_frequencies(d.rope.theta, d.head_dim);
}
void one_window_layer_less(decoder_description& d) { d.layers[0].window.reset(); }

const std::vector<feature>& features() {
  static const std::vector<feature> list{
      {"mistral", "window", no_windows},
      {"ministral", "window", no_windows},
      {"ministral", "full layers between sliding ones", windows_everywhere},
      {"ministral3", "yarn", default_rope},
      {"ministral3", "queries that grow", no_growth},
      {"mistral3", "yarn", default_rope},
      {"mistral3", "queries that grow", no_growth},
      {"mistral4", "yarn", default_rope},
      {"mistral4", "queries that grow", no_growth},
      {"mistral4", "softmax of the experts", [](auto& d) { d.experts->normalised = false; }},
      {"mistral4", "YaRN's share of the scale", [](auto& d) { d.score_scale.reset(); }},
      {"qwen2", "bias", no_qkv_bias},
      {"qwen2", "window", no_windows},
      {"qwen2", "max_window_layers", windows_everywhere},
      {"qwen3", "norm of queries and keys", no_qk_norm},
      {"qwen3", "bias of q, k, v", no_qkv_bias},
      {"qwen3", "bias of the output", no_output_bias},
      {"qwen3-yarn", "yarn", default_rope},
      {"qwen3-yarn", "yarn's attention factor", [](auto& d) { d.rope.attention_factor = 1; }},
      {"qwen3-moe", "experts chosen", [](auto& d) { d.experts->chosen = 2; }},
      {"qwen3-moe", "normalised probabilities", [](auto& d) { d.experts->normalised = false; }},
      {"llama-linear", "linear scaling", default_rope},
      {"llama-dynamic", "dynamic scaling", default_rope},
      {"smollm3", "layers without rotation", [](auto& d) { d.layers[1].rope = true; }},
      {"smollm3", "window", no_windows},
      {"gemma3-text", "window", one_window_layer_less},
      {"gemma3-text", "rotation of sliding layers", [](auto& d) { d.local_rope = d.rope; }},
      {"gemma3-text", "linear scaling", default_rope},
      {"gemma3-text", "1 + w", llama_norm},
      {"gemma3-text", "norm of queries and keys", no_qk_norm},
      {"gemma3-text", "norms of outputs", no_out_norms},
      {"gemma3-text", "scaled embedding", [](auto& d) { d.scaled_embedding = false; }},
      {"gemma3-text", "scale of scores", [](auto& d) { d.score_scale.reset(); }},
      {"gemma3-text", "tanh gelu", silu},
      {"gemma3", "1 + w", llama_norm},
      {"gemma4-text", "window", one_window_layer_less},
      {"gemma4-text", "pairs that do not turn",
       [](auto& d) { d.rope.inv_freq = default_frequencies(1e4, d.head_dim); }},
      {"gemma4-text", "rotation of sliding layers",
       [](auto& d) { d.local_rope->inv_freq = default_frequencies(1e4, d.local_rope->rotary_dim); }},
      {"gemma4-text", "norm of queries and keys", no_qk_norm},
      {"gemma4-text", "norm of values", [](auto& d) { d.value_norm = false; }},
      {"gemma4-text", "factors of layers", [](auto& d) { d.layer_factor = false; }},
      {"gemma4-text", "scale of scores", [](auto& d) { d.score_scale.reset(); }},
      {"gemma4-text", "norms of outputs", no_out_norms},
      {"gemma4", "norm of values", [](auto& d) { d.value_norm = false; }},
      {"glm", "neighbouring pairs", half_style},
      {"glm", "partial rotation", whole_rotation},
      {"glm", "bias", no_qkv_bias},
      {"glm4", "neighbouring pairs", half_style},
      {"glm4", "norms of outputs", no_out_norms},
      {"glm4-moe", "experts chosen", [](auto& d) { d.experts->chosen = 1; }},
      {"glm4-moe", "normalised sigmoids", [](auto& d) { d.experts->normalised = false; }},
      {"glm4-moe", "sigmoids", [](auto& d) { d.experts->sigmoids = false; }},
      {"glm4-moe", "scale of the experts", [](auto& d) { d.experts->scale = 1; }},
      {"glm4-moe", "shared feed-forward", [](auto& d) { d.experts->shared_width = 0; }},
      {"glm4-moe", "partial rotation", whole_rotation},
      {"olmo2", "norm of queries and keys", no_qk_norm},
      {"olmo2", "norms of outputs", no_out_norms},
      {"olmo3", "window", no_windows},
      {"olmo3", "yarn of full layers", default_rope},
      {"olmo3", "rotation of sliding layers", [](auto& d) { d.local_rope = d.rope; }},
      {"olmo-hybrid", "norm of queries and keys", no_qk_norm},
      {"olmo-hybrid", "rotation", [](auto& d) { d.layers[1].rope = false; }},
      {"olmo-hybrid", "rates of up to 2", [](auto& d) { d.delta->most_learned = 1; }},
      {"olmo-hybrid", "epsilon of the answers' norm", [](auto& d) { d.delta->norm_eps = 1e-2; }},
      {"lfm3", "gates of heads", [](auto& d) { d.gated_output = d.gated_heads = false; }},
      {"lfm3", "window", no_windows},
      {"lfm3", "pairs that do not turn", [](auto& d) { d.rope.inv_freq = default_frequencies(1e4, d.head_dim); }},
      {"lfm3", "rotation of sliding layers", [](auto& d) { d.local_rope->inv_freq = d.rope.inv_freq; }},
      {"lfm3", "norm of queries and keys", no_qk_norm},
      {"lfm3", "norms of outputs", no_out_norms},
      {"granite-hybrid-spaces", "bias of the convolution", [](auto& d) { d.delta->convolution_bias = false; }},
      {"granite-hybrid-spaces", "least step of time", [](auto& d) { d.delta->least_step = 0; }},
      {"granite-hybrid-spaces", "largest step of time", [](auto& d) { d.delta->most_step = HUGE_VALF; }},
      {"granite-hybrid-spaces", "no rotation", [](auto& d) { d.layers[1].rope = true; }},
      {"granite", "scaled embedding", [](auto& d) { d.embedding_scale = 1; }},
      {"granite", "scaled residual", no_residual_scale},
      {"granite", "scale of scores", [](auto& d) { d.score_scale.reset(); }},
      {"granite", "bias of the feed-forward", [](auto& d) { d.feed_forward_bias = false; }},
      {"granite-hybrid", "scaled embedding", [](auto& d) { d.embedding_scale = 1; }},
      {"granite-hybrid", "scale of scores", [](auto& d) { d.score_scale.reset(); }},
      {"granite-hybrid", "rotation", [](auto& d) { d.layers[0].rope = false; }},
      {"granite-hybrid-nope", "no rotation", [](auto& d) { d.layers[0].rope = true; }},
      {"seed-oss", "bias of q, k, v", no_qkv_bias},
      {"hunyuan-dense", "norm after the rotation", [](auto& d) { d.qk = qk_norm::each_head; }},
      {"hunyuan-dense", "alpha", [](auto& d) { d.rope.inv_freq = default_frequencies(1e3, d.rope.rotary_dim); }},
      {"exaone4", "norm of queries and keys", no_qk_norm},
      {"exaone4", "full layers without rotation", [](auto& d) { d.layers[1].rope = true; }},
      {"exaone4", "norms of outputs", no_out_norms},
      {"exaone4.5", "full layers without rotation", [](auto& d) { d.layers[1].rope = true; }},
      {"cohere2", "neighbouring pairs", half_style},
      {"cohere2", "full layers without rotation", [](auto& d) { d.layers[1].rope = true; }},
      {"cohere2", "norm about the mean", llama_norm},
      {"cohere2", "parallel residual", [](auto& d) { d.parallel_residual = false; }},
      {"cohere2", "window", no_windows},
      {"phi3", "factors of long documents", [](auto& d) { d.rope.longrope.reset(); }},
      {"phi3", "attention factor", [](auto& d) { d.rope.attention_factor = 1; }},
      {"phi3", "window", no_windows},
      {"phi3-short", "factors of short documents", [](auto& d) { d.rope.longrope->context = 1; }},
      {"gemma2", "cap of scores", [](auto& d) { d.score_cap = 0; }},
      {"gemma2", "window", no_windows},
      {"gemma2", "scale of scores", [](auto& d) { d.score_scale.reset(); }},
      {"gpt-oss", "sinks", [](auto& d) { d.sinks = false; }},
      {"gpt-oss", "window", no_windows},
      {"gpt-oss", "yarn", default_rope},
      {"gpt-oss", "bias of the output", no_output_bias},
      {"gpt-oss", "experts chosen", [](auto& d) { d.experts->chosen = 1; }},
      {"gpt-oss", "limit of gate and up", [](auto& d) { d.experts->limit = 7; }},
      {"gpt-oss", "gated product", [](auto& d) { d.experts->limit = 0; }},
      {"gpt-oss", "biases of experts", [](auto& d) { d.experts->biases = false; }},
      {"llama4-text", "chunks", [](auto& d) { d.layers[0].chunk.reset(); }},
      {"llama4-text", "layers without rotation", [](auto& d) { d.layers[3].rope = true; }},
      {"llama4-text", "neighbouring pairs", half_style},
      {"llama4-text", "norm after the rotation", no_qk_norm},
      {"llama4-text", "queries that grow", no_growth},
      {"llama4-text", "growth of layers without rotation", [](auto& d) { d.growth_unrotated = false; }},
      {"llama4-text", "experts chosen", [](auto& d) { d.experts->chosen = 1; }},
      {"llama4-text", "scaled inputs of experts", [](auto& d) { d.experts->scales_inputs = false; }},
      {"llama4-text", "llama3 scaling", default_rope},
      {"llama4-without-norm", "chunks", [](auto& d) { d.layers[0].chunk.reset(); }},
      {"qwen3.5", "partial rotation", whole_rotation},
      {"qwen3.5", "norm of queries and keys", no_qk_norm},
      {"qwen3.5", "1 + w", llama_norm},
      {"qwen3.5-moe", "experts chosen", [](auto& d) { d.experts->chosen = 1; }},
      {"qwen3.5-moe", "gate of the shared feed-forward", [](auto& d) { d.experts->gated_shared = false; }},
      {"qwen3.5-moe", "normalised probabilities", [](auto& d) { d.experts->normalised = false; }},
      {"qwen3-next", "gate of the shared feed-forward", [](auto& d) { d.experts->gated_shared = false; }},
      {"qwen3-next", "normalised probabilities", [](auto& d) { d.experts->normalised = false; }},
      {"deepseek-v3", "yarn", default_rope},
      {"deepseek-v3", "where the rotation begins", [](auto& d) { d.rope.first = 0; }},
      {"deepseek-v3", "neighbouring pairs", [](auto& d) { d.latent->pairs = false; }},
      {"deepseek-v3", "YaRN's share of the scale", [](auto& d) { d.score_scale.reset(); }},
      {"deepseek-v3", "groups of experts", [](auto& d) { d.experts->groups = 1; }},
      {"deepseek-v3", "chosen groups", [](auto& d) { d.experts->chosen_groups = 3; }},
      {"deepseek-v3", "scale of the experts", [](auto& d) { d.experts->scale = 1; }},
      {"deepseek-v3-direct", "halves", [](auto& d) { d.latent->pairs = true; }},
      {"deepseek-v3-direct", "bias of the short rows", [](auto& d) { d.latent->bias = false; }},
      {"deepseek-v3-direct", "bias of the output", no_output_bias},
      {"deepseek-v3.2", "sparse attention", [](auto& d) { d.indexer->chosen = 300; }},
      {"deepseek-v3.2", "halves of the indexer", [](auto& d) { d.indexer->pairs = true; }},
      {"deepseek-v3.2", "yarn", default_rope},
      {"glm-5", "sparse attention", [](auto& d) { d.indexer->chosen = 300; }},
      {"glm-5", "chosen keys", [](auto& d) { d.indexer->chosen = 39; }},
      {"glm-5", "neighbouring pairs of the indexer", [](auto& d) { d.indexer->pairs = false; }},
      {"gpt-neox", "parallel residual", [](auto& d) { d.parallel_residual = false; }},
      {"gpt-neox", "partial rotation", whole_rotation},
      {"gpt-neox", "bias of q, k, v", no_qkv_bias},
      {"gpt-neox", "bias of the output", no_output_bias},
      {"gpt-neox", "bias of the feed-forward", [](auto& d) { d.feed_forward_bias = false; }},
      {"gpt-neox", "gelu", silu},
      {"gpt-neox", "exact gelu", [](auto& d) { d.act = activation::gelu_tanh; }},
      {"gpt-neox-sequential", "sequential residual", [](auto& d) { d.parallel_residual = true; }},
      {"gpt-neox-sequential", "tanh gelu", [](auto& d) { d.act = activation::gelu; }},
      {"mllama", "llama3 scaling", default_rope},
  };
  return list;
}

TEST(families, fixtures_fail_when_a_feature_is_switched_off) {
  for (const feature& x : features()) {
    const forward_fixture f = family_fixture(x.family);
    const safetensors_file fixture = f.open();
    decoder_description d = f.description();
    x.off(d);
    double worst = 0;
    for (const auto& [name, ours] : run_fixture(f, d, compute_type::f32)) {
      const auto theirs = widened<float>(fixture, "f32." + name);
      worst = std::max(worst, distance(ours, theirs) / norm(theirs));
    }
    EXPECT_GT(worst, 1e-4) << x.family << ": " << x.name;  // what forward_test.cpp allows
  }
}

/// OLMo 2 rotates in f32 and rounds once: rounding each product gives other bits in layer 0.
TEST(families, olmo2_rotates_in_f32) {
  const forward_fixture f = family_fixture("olmo2");
  decoder_description d = f.description();
  d.rope.exact = false;
  const auto theirs = widened<bf16>(f.open(), "bf16.layer.0.q"),
             ours = run_fixture(f, d, compute_type::bf16)["layer.0.q"];
  std::size_t same = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) same += ours[i] == theirs[i];
  EXPECT_LT(static_cast<double>(same), 0.9 * static_cast<double>(theirs.size()));
}

/// Layers that attend to images do nothing to text, and give no rows.
TEST(families, mllama_skips_layers_for_images) {
  const forward_fixture f = family_fixture("mllama");
  const decoder_description d = f.description();
  EXPECT_TRUE(d.layers[1].skipped);
  EXPECT_EQ(run_fixture(f, d, compute_type::f32).count("layer.1.q"), 0u);
}

// Base models are saved without the outer name of their tensors.
TEST(families, checkpoints_of_base_models_are_read) {
  for (const auto& [family, inner] : {std::pair{"llama-linear", ""}, {"gpt-neox", ""}, {"gemma3", "language_model."}}) {
    const forward_fixture f = family_fixture(family);
    const std::string outer = find_prefix(f.description(), checkpoint(f.folder));
    const safetensors_file original(f.folder + "/model.safetensors");
    std::vector<tensor_to_write> written;
    for (const auto& t : original.tensors())
      if (t.name.starts_with(outer))
        written.push_back({inner + t.name.substr(outer.size()),
                           "BF16",
                           t.shape,
                           std::as_bytes(std::span(original.values<bf16>(t))),
                           {}});
    const test::scratch_folder folder;
    write_safetensors(folder / "model.safetensors", written);
    EXPECT_EQ(run_fixture({f.file, folder.path().string()}, f.description(), compute_type::f32),
              run_fixture(f, f.description(), compute_type::f32))
        << family;
  }
}

/// A family's checkpoint with some tensors quantised, and with the same values written out in bf16.
struct quantised_and_plain {
  forward_fixture f;
  test::scratch_folder folder{};
  std::map<std::string, std::vector<bf16>> values{};
  std::vector<tensor_to_write> quantised{}, plain{};

  /// Calls `quantise(tensor, values)` on each tensor. It returns the tensors that store the quantised form and sets
  /// `values` to what they mean; where it returns none, the tensor stays in bf16.
  template <class Quantise>
  void fill(const Quantise& quantise) {
    const safetensors_file original(f.folder + "/model.safetensors");
    for (const auto& t : original.tensors()) {
      const auto stored = original.values<bf16>(t);
      auto& x = values[t.name];
      x.assign(stored.begin(), stored.end());
      const std::vector<tensor_to_write> form = quantise(t, x);
      plain.push_back({t.name, "BF16", t.shape, std::as_bytes(std::span(x)), {}});
      quantised.insert(quantised.end(), form.begin(), form.end());
      if (form.empty()) quantised.push_back(plain.back());
    }
  }
  /// Writes both to the folders "quantised" and "plain", whose rows must be the same. Returns them.
  named_tensors equal_rows() const {
    std::vector<named_tensors> found;
    for (const auto& [name, tensors] : {std::pair{"quantised", &quantised}, std::pair{"plain", &plain}}) {
      std::filesystem::create_directory(folder / name);
      write_safetensors(folder / name / "model.safetensors", *tensors);
      found.push_back(run_fixture({f.file, (folder / name).string()}, f.description(), compute_type::bf16));
    }
    EXPECT_EQ(found[0], found[1]);
    return found[0];
  }
};

// Ministral 3's released weights: E4M3 with one scale a tensor. The same values written out in bf16 must give the same.
TEST(families, fp8_weights_are_value_times_scale) {
  const forward_fixture f = family_fixture("mistral3");
  const auto e4m3 = [](std::uint8_t bits) {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const double size = exponent > 0 ? (1 + fraction / 8.0) * std::pow(2.0, exponent - 7) : fraction / 512.0;
    return bits & 128 ? -size : size;
  };
  std::map<std::string, std::vector<std::uint8_t>> codes;
  std::map<std::string, bf16> scales;
  quantised_and_plain both{f};
  both.fill([&](const auto& t, std::vector<bf16>& values) -> std::vector<tensor_to_write> {
    if (t.name.find("_proj.weight") == std::string::npos) return {};
    const std::size_t made = scales.size();
    const bf16 scale = scales[t.name] = bf16::round(0.0173f + 0.001f * static_cast<float>(made));
    auto& code = codes[t.name];
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint8_t c = static_cast<std::uint8_t>((i * 37 + made + 1) % 256);  // any value there is, but NaN
      if ((c & 127) == 127) c = 0;
      if ((c & 127) > 88) c = static_cast<std::uint8_t>(c - 48);  // and none that is huge
      code.push_back(c);
      values[i] = bf16::round(static_cast<float>(e4m3(c) * static_cast<double>(static_cast<float>(scale))));
    }
    return {{t.name, "F8_E4M3", t.shape, std::as_bytes(std::span(code)), {}},
            {t.name + "_scale_inv", "BF16", {}, std::as_bytes(std::span(&scales[t.name], 1)), {}}};
  });
  EXPECT_GT(scales.size(), 10u);
  both.equal_rows();
  // In f32 nothing is rounded.
  const auto& [name, code] = *codes.begin();
  const auto shape = safetensors_file(f.folder + "/model.safetensors").find(name)->shape;
  std::vector<float> row(static_cast<std::size_t>(shape[1]));
  checkpoint(both.folder / "quantised").read(name, shape, 0, 1, false, row.data());
  for (std::size_t i = 0; i < row.size(); ++i)
    EXPECT_EQ(row[i], static_cast<float>(e4m3(code[i]) * static_cast<double>(static_cast<float>(scales[name]))));
  EXPECT_TRUE(checkpoint(both.folder / "quantised").has_fp8());
  EXPECT_FALSE(checkpoint(both.folder / "plain").has_fp8());
  json config = read_json(f.folder + "/config.json");
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", nullptr}};
  EXPECT_NO_THROW(read_description(config));
  config["quantization_config"]["weight_block_size"] = {128, 128};
  EXPECT_NO_THROW(read_description(config));
  config["quantization_config"]["weight_block_size"] = {1, 128};
  EXPECT_QKGEOM_ERROR("quant_method 'fp8' with blocks of [1,128]", read_description(config));
  config["quantization_config"] = {{"quant_method", "awq"}};
  EXPECT_QKGEOM_ERROR("quant_method 'awq' is not supported", read_description(config));
}

// Qwen 3.5 may have the experts of a layer in one tensor, as transformers holds them: output by input, gate before up.
TEST(families, experts_in_one_tensor_are_those_of_tensors_of_their_own) {
  const forward_fixture f = family_fixture("qwen3.5-moe");
  const decoder_description d = f.description();
  const index_t experts = d.experts->count, width = d.experts->width;
  const safetensors_file original(f.folder + "/model.safetensors");
  std::map<std::string, std::pair<std::vector<index_t>, std::vector<bf16>>> joined;
  for (const auto& t : original.tensors()) {
    const auto values = original.values<bf16>(t);
    const auto at = t.name.find(".experts.");
    const bool own = at == t.name.npos, down = t.name.ends_with("down_proj.weight");
    auto& [shape, all] = joined[own ? t.name : t.name.substr(0, at + 9) + (down ? "down_proj" : "gate_up_proj")];
    shape = own ? t.shape : std::vector{experts, down ? d.hidden : 2 * width, down ? width : d.hidden};
    const index_t expert = own ? 0 : std::stoi(t.name.substr(at + 9));
    const index_t row = t.name.ends_with(".up_proj.weight") && !own ? width : 0;
    index_t size = 1;
    for (const index_t n : shape) size *= n;
    all.resize(size);
    std::copy(values.begin(), values.end(), all.begin() + (own ? 0 : (expert * shape[1] + row) * shape[2]));
  }
  std::vector<tensor_to_write> written;
  for (const auto& [name, t] : joined)
    written.push_back({name, "BF16", t.first, std::as_bytes(std::span(t.second)), {}});
  EXPECT_LT(written.size(), original.tensors().size());
  const test::scratch_folder folder;
  write_safetensors(folder / "model.safetensors", written);
  EXPECT_EQ(run_fixture({f.file, folder.path().string()}, d, compute_type::bf16),
            run_fixture(f, d, compute_type::bf16));
}

// GPT-OSS' released weights: experts in MXFP4. The same values written out in bf16, input by output, give the same.
TEST(families, mxfp4_experts_are_the_values_of_the_microscaling_format) {
  const forward_fixture f = family_fixture("gpt-oss");
  constexpr double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::map<std::string, std::vector<std::uint8_t>> bytes_of;
  quantised_and_plain both{f};
  both.fill([&](const auto& t, std::vector<bf16>& values) -> std::vector<tensor_to_write> {
    if (!t.name.ends_with("experts.gate_up_proj") && !t.name.ends_with("experts.down_proj")) return {};
    const index_t experts = t.shape[0], in = t.shape[1], rows = t.shape[2], blocks = in / 32;
    auto &codes = bytes_of[t.name + "_blocks"], &scales = bytes_of[t.name + "_scales"];
    for (index_t e = 0; e < experts; ++e)
      for (index_t r = 0; r < rows; ++r)
        for (index_t b = 0; b < blocks; ++b) {
          const auto scale = static_cast<std::uint8_t>(122 + (e + r + b) % 4);
          scales.push_back(scale);
          for (index_t i = 0; i < 32; ++i) {
            const auto code = static_cast<std::uint8_t>((e * 7 + r * 5 + i * 11 + i * i) % 16);
            if (i % 2 == 0)
              codes.push_back(code);
            else
              codes.back() = static_cast<std::uint8_t>(codes.back() | code << 4);
            const double size = e2m1[code & 7] * std::pow(2.0, scale - 127);
            values[(e * in + b * 32 + i) * rows + r] = bf16::round(static_cast<float>(code & 8 ? -size : size));
          }
        }
    return {{t.name + "_blocks", "U8", {experts, rows, blocks, 16}, std::as_bytes(std::span(codes)), {}},
            {t.name + "_scales", "U8", {experts, rows, blocks}, std::as_bytes(std::span(scales)), {}}};
  });
  EXPECT_EQ(bytes_of.size(), 12u);
  auto lying = both.quantised;
  for (auto& t : lying)
    if (t.name.ends_with("_scales")) t.shape.back() *= 2, t.shape.front() /= 2;
  write_safetensors(both.folder / "model.safetensors", lying);
  EXPECT_THROW(checkpoint(both.folder.path()), error);
  EXPECT_NE(both.equal_rows(), run_fixture(f, f.description(), compute_type::bf16));
  thread_pool pool(2);
  EXPECT_NE(checkpoint(both.folder / "quantised").fingerprint(pool),
            checkpoint(both.folder / "plain").fingerprint(pool));
}

}  // namespace
}  // namespace qkgeom
