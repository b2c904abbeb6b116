// SPDX-License-Identifier: MIT
// A GGUF file written from a family's checkpoint gives the queries and keys that transformers computed with that
// checkpoint; and what its architecture does not have is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/capture/gguf/converted_gguf.hpp"

namespace {

using namespace qkgeom;
using test::converted;
namespace fs = std::filesystem;

/// Largest distance over norm of a layer's queries or keys from transformers'.
double worst_distance(const forward_fixture& fixture, const test::written_gguf& model, bool with_windows) {
  const test::scratch_folder scratch;
  const fs::path file = scratch / "model.gguf";
  test::put(file, model.bytes());
  // What the file has no keys for comes from config.json.
  const auto description = with_windows ? fixture.description() : read_description(gguf_model(file).config());
  const safetensors_file reference = fixture.open();
  double worst = 0;
  for (const auto& [name, ours] : run_fixture({fixture.file, file.string()}, description, compute_type::f32)) {
    const auto theirs = widened<float>(reference, "f32." + name);
    worst = std::max(worst, distance(ours, theirs) / norm(theirs));
  }
  return worst;
}

double worst_distance(const forward_fixture& fixture, const std::string& architecture, const std::string& type,
                      bool with_windows) {
  return worst_distance(fixture, converted(fixture.folder, architecture, type), with_windows);
}

struct line {
  std::string family, architecture;
  bool with_windows = false;  ///< GGUF does not say the windows of the fixture
};

TEST(gguf_architectures, queries_and_keys_are_those_of_transformers) {
  for (const auto& [family, architecture, with_windows] : {line{"llama-linear", "llama"},
                                                           line{"mistral", "llama", true},
                                                           line{"smollm3", "smollm3", true},
                                                           line{"qwen2", "qwen2", true},
                                                           line{"qwen3", "qwen3"},
                                                           line{"qwen3-moe", "qwen3moe"},
                                                           line{"olmo2", "olmo2"},
                                                           line{"gemma3-text", "gemma3"},
                                                           line{"ministral3", "mistral3"},
                                                           line{"glm", "chatglm"},
                                                           line{"glm4", "glm4"},
                                                           line{"gpt-neox", "gptneox"},
                                                           line{"gemma2", "gemma2"},
                                                           line{"phi3", "phi3"},
                                                           line{"phi3-short", "phi3"},
                                                           line{"olmo3", "olmo2"},
                                                           line{"granite", "granite"},
                                                           line{"seed-oss", "seed_oss"},
                                                           line{"hunyuan-dense", "hunyuan-dense"},
                                                           line{"exaone4", "exaone4"},
                                                           line{"cohere2", "cohere2"},
                                                           line{"glm4-moe", "glm4moe"},
                                                           line{"gemma4-text", "gemma4"},
                                                           line{"llama4-text", "llama4", true},
                                                           line{"qwen3.5", "qwen35"},
                                                           line{"qwen3.5-moe", "qwen35moe"},
                                                           line{"qwen3-next", "qwen3next"},
                                                           line{"deepseek-v3", "deepseek2", true},
                                                           line{"deepseek-v3-direct", "deepseek2", true},
                                                           line{"gpt-oss", "gpt-oss", true}}) {
    const auto fixture = family_fixture(family);
    // The fixtures' weights are bf16, which F16 holds but for the smallest.
    EXPECT_LE(worst_distance(fixture, architecture, "F32", with_windows), 1e-4) << family;
    EXPECT_LE(worst_distance(fixture, architecture, "F16", with_windows), 1e-4) << family;
  }
}

/// Files of the converter's --fuse-gate-up-exps: an expert's rows of up follow those of its gate.
TEST(gguf_architectures, gate_and_up_of_experts_may_be_one_tensor) {
  for (const auto& [family, architecture, with_windows] :
       {line{"qwen3.5-moe", "qwen35moe"}, line{"qwen3-next", "qwen3next"}, line{"deepseek-v3", "deepseek2", true}}) {
    const auto fixture = family_fixture(family);
    auto model = converted(fixture.folder, architecture, "F16");
    EXPECT_GT(test::fuse_gate_and_up(model), 0) << family;
    EXPECT_LE(worst_distance(fixture, model, with_windows), 1e-4) << family;
  }
}

/// GPT-OSS as it is released: experts in MXFP4, which the file has in another order of nibbles than safetensors.
TEST(gguf_architectures, experts_in_mxfp4_have_the_values_of_the_format) {
  const auto fixture = family_fixture("gpt-oss");
  const test::scratch_folder scratch;
  constexpr double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const safetensors_file original(fixture.folder + "/model.safetensors");
  std::map<std::string, std::vector<bf16>> values;
  std::vector<tensor_to_write> tensors;
  for (const auto& t : original.tensors()) {
    const auto stored = original.values<bf16>(t);
    auto& out = values[t.name];
    out.assign(stored.begin(), stored.end());
    if (t.name.ends_with("experts.gate_up_proj") || t.name.ends_with("experts.down_proj"))
      for (index_t i = 0; i < static_cast<index_t>(out.size()); ++i) {
        const index_t row = i % t.shape[2], column = i / t.shape[2];  // of a matrix output by input
        const double size = e2m1[(row * 5 + column * 11 + column * column) % 8] * std::pow(2.0, -4 - row % 3);
        out[i] = bf16::round(static_cast<float>(column % 3 == 0 ? -size : size));
      }
    tensors.push_back({t.name, "BF16", t.shape, std::as_bytes(std::span(out)), {}});
  }
  write_safetensors(scratch / "model.safetensors", tensors);
  fs::copy(fixture.folder + "/config.json", scratch / "config.json");
  test::put(scratch / "model.gguf", converted(scratch.path(), "gpt-oss", "F16", "MXFP4").bytes());
  EXPECT_EQ(gguf_model(scratch / "model.gguf").types()["MXFP4"], 9);  // three in each layer
  const auto run = [&](const fs::path& model) {
    return run_fixture({fixture.file, model.string()}, fixture.description(), compute_type::f32);
  };
  const auto expected = run(scratch.path()), found = run(scratch / "model.gguf");
  for (const auto& [name, ours] : expected)
    EXPECT_LE(distance(found.at(name), ours), 1e-5 * norm(ours)) << name;  // F16 lacks the smallest of the others
}

/// What llama.cpp takes for granted, and the heads of its own form of latent attention.
TEST(gguf_architectures, what_a_file_does_not_say_is_that_of_the_released_models) {
  const test::scratch_folder scratch;
  const auto read = [&](const char* family, const char* architecture) {
    test::put(scratch / "model.gguf", converted(family_fixture(family).folder, architecture, "F32").bytes());
    return read_description(gguf_model(scratch / "model.gguf").config());
  };
  const auto llama4 = read("llama4-text", "llama4");
  EXPECT_EQ(llama4.layers[0].chunk, 8192);
  EXPECT_EQ(llama4.growth->context, 8192);
  EXPECT_EQ(llama4.qk, qk_norm::each_rotated_head);
  EXPECT_EQ(llama4.feed_forward, 80);
  EXPECT_EQ(llama4.experts->width, 24);
  EXPECT_EQ(llama4.experts->chosen, 2);
  EXPECT_TRUE(!llama4.layers[0].experts && llama4.layers[1].experts);
  const auto deepseek = read("deepseek-v3", "deepseek2"), theirs = family_fixture("deepseek-v3").description();
  EXPECT_EQ(deepseek.head_dim, 20);
  EXPECT_EQ(deepseek.key_heads, 6);
  EXPECT_EQ(deepseek.latent->query_rank, 20);
  EXPECT_EQ(deepseek.latent->plain, 12);
  EXPECT_EQ(deepseek.latent->value_dim, 10);
  EXPECT_TRUE(deepseek.latent->pairs);
  EXPECT_EQ(deepseek.rope.inv_freq, theirs.rope.inv_freq);
  EXPECT_NEAR(*deepseek.score_scale, *theirs.score_scale, 1e-7);
  EXPECT_EQ(deepseek.rope.attention_factor, 1);
  EXPECT_EQ(deepseek.experts->groups, 4);
  EXPECT_EQ(deepseek.experts->scale, 1.5);
}

TEST(gguf_architectures, the_bundled_model_and_llama3_scaling_give_what_their_safetensors_give) {
  const auto fixtures = forward_fixtures();
  for (const auto& [number, architecture] : {std::pair<std::size_t, std::string>{0, "smollm3"}, {3, "llama"}}) {
    const auto& fixture = fixtures[number];
    EXPECT_LE(worst_distance(fixture, architecture, "F32", false), 1e-4) << fixture.folder;
    EXPECT_LE(worst_distance(fixture, architecture, "F16", false), 1e-4) << fixture.folder;
    const double rounded = worst_distance(fixture, architecture, "Q8_0", false);
    EXPECT_LE(rounded, 0.02) << fixture.folder;
    EXPECT_EQ(rounded > 1e-4, architecture == "smollm3") << rounded;  // whose rows are whole blocks
  }
}

}  // namespace
