// SPDX-License-Identifier: MIT
// A GGUF file written from a family's checkpoint gives the queries and keys that transformers computed with that
// checkpoint; and what its architecture does not have is refused by name.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/capture/gguf/converted_gguf.hpp"

namespace {

using namespace qkgeom;
using test::converted;
namespace fs = std::filesystem;

/// Largest distance over norm of a layer's queries or keys from transformers'.
double worst_distance(const forward_fixture& fixture, const std::string& architecture, const std::string& type,
                      bool with_windows) {
  const test::scratch_folder scratch;
  const fs::path file = scratch / "model.gguf";
  test::put(file, converted(fixture.folder, architecture, type).bytes());
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

TEST(gguf_architectures, queries_and_keys_are_those_of_transformers) {
  struct line {
    std::string family, architecture;
    bool with_windows = false;  ///< GGUF does not say the windows of the fixture
  };
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
                                                           line{"gpt-oss", "gpt-oss", true}}) {
    const auto fixture = family_fixture(family);
    // The fixtures' weights are bf16, which F16 holds but for the smallest.
    EXPECT_LE(worst_distance(fixture, architecture, "F32", with_windows), 1e-4) << family;
    EXPECT_LE(worst_distance(fixture, architecture, "F16", with_windows), 1e-4) << family;
  }
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
