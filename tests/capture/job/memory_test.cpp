// SPDX-License-Identifier: MIT
// Peak memory of qkgeom-capture.
#include <sys/prctl.h>

#include "qkgeom/io/json.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/capture/program_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

/// A Llama whose layers have 1.8 million weights each, all tensors the same few numbers.
template <class T>
void write_llama(const fs::path& folder, index_t layers) {
  const index_t hidden = 256, width = 2048, vocabulary = 1024;
  fs::create_directories(folder);
  json config = json::parse(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 2048,
      "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1024, "max_position_embeddings": 64,
      "tie_word_embeddings": true})");
  config["num_hidden_layers"] = layers;
  test::put(folder / "config.json", config.dump());
  std::vector<T> values;
  for (index_t i = 0; i < width * hidden; ++i) {
    const float x = 0.01f * static_cast<float>(i * i % 11 - 5);
    if constexpr (std::is_same_v<T, bf16>)
      values.push_back(bf16::round(x));
    else
      values.push_back(x);
  }
  std::vector<tensor_to_write> tensors{tensor_of("model.embed_tokens.weight", {vocabulary, hidden}, values.data())};
  for (index_t l = 0; l < layers; ++l) {
    const auto add = [&](const std::string& name, std::vector<index_t> shape) {
      tensors.push_back(
          tensor_of("model.layers." + std::to_string(l) + '.' + name + ".weight", std::move(shape), values.data()));
    };
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(norm, {hidden});
    for (const char* part : {"q", "k", "v", "o"}) add(std::string("self_attn.") + part + "_proj", {hidden, hidden});
    for (const char* part : {"gate", "up"}) add(std::string("mlp.") + part + "_proj", {width, hidden});
    add("mlp.down_proj", {hidden, width});
  }
  write_safetensors(folder / "model.safetensors", tensors);
}

class capture_memory : public test::capture_program {
 protected:
  /// Peak memory in MB of the program with these arguments. It includes memory inherited from this process, so compare
  /// children that start from the same state.
  double peak_memory(const std::vector<std::string>& arguments) const {
    int status = 1;
    rusage used{};
    ::wait4(start(arguments), &status, 0, &used);
    EXPECT_EQ(status, 0) << log();
    return static_cast<double>(used.ru_maxrss) * 1024 / 1e6;
  }
};

// Twenty more layers have 147 MB of weights in f32 and 73 MB in bf16.
TEST_F(capture_memory, does_not_grow_with_the_number_of_layers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers keep freed memory, so that peaks say nothing";
#endif
  ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // counts touched pages, not whole huge pages
  test::put(folder / "a.txt", "In the beginning God created the heaven and the earth.");
  for (const index_t layers : {4, 24}) {
    write_llama<float>(folder / ("F32-" + std::to_string(layers)), layers);
    write_llama<bf16>(folder / ("BF16-" + std::to_string(layers)), layers);
  }
  for (const std::string weights : {"F32", "BF16"})
    for (const std::string compute : {"f32", "bf16"}) {
      std::map<int, double> peak;
      for (const int layers : {4, 24}) {
        const fs::path model = folder / (weights + '-' + std::to_string(layers));
        peak[layers] = peak_memory({"--model", model.string(), "--tokenizer",
                                    std::string(QKGEOM_EXAMPLE_DATA) + "/kjv-smollm3/tokenizer.json", "--text",
                                    (folder / "a.txt").string(), "--layers", std::to_string(layers - 1), "--dtype",
                                    compute, "--threads", "2", "--out", (model / compute).string()});
      }
      EXPECT_LT(peak[24], peak[4] + 25) << weights << ' ' << compute;
    }
}

}  // namespace
}  // namespace qkgeom
