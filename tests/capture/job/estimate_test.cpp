// SPDX-License-Identifier: MIT
#include "capture/job/estimate.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sstream>

#include "capture/forward/products/tiles.hpp"
#include "capture/job/prepare.hpp"
#include "capture/job/protocol.hpp"
#include "tests/capture/gguf/gguf_fixture.hpp"
#include "tests/common/data_files.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using ::testing::HasSubstr;

const std::string qwen3_8b = R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 36, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6})";

/// A model's folder with a config.json alone.
class estimates : public ::testing::Test {
 protected:
  capture_estimate planned(capture_options o) {
    o.run.threads = 2;
    notes.str("");
    const auto e = estimate_capture(o, notes);
    std::ostringstream text;
    print_estimate(text, e);
    printed = text.str();
    return e;
  }
  capture_estimate plan(const std::string& protocol, const std::string& config) {
    test::put(folder / "config.json", config);
    capture_options o = find_protocol(protocol);
    o.model.path = folder.path();
    o.inputs.count = 500;
    return planned(o);
  }
  const test::scratch_folder folder;
  std::ostringstream notes;
  std::string printed;
};

TEST_F(estimates, a_protocol_is_planned_from_config_json_alone) {
  const auto e = plan("qwen3-8b", qwen3_8b);
  EXPECT_EQ(e.query_heads, 300);
  EXPECT_EQ(e.manifest.layers.size(), 36u);
  EXPECT_EQ(e.manifest.rope->attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(e.tokens, 500 * 131072);
  EXPECT_NEAR(e.query_rows, 36 * 500 * 16, 1e-6);  // a token in 8192 of each layer
  EXPECT_NEAR(e.bytes, 500 * 16 * ((300.0 + static_cast<double>(e.key_heads)) * 128 * 2 + 36 * 24), 1);
  // A layer has 192.9 M weights, 4 bytes each, or 2 where the CPU multiplies bf16 tiles; 131072 tokens of
  // 4096 + 4096 + 2048 + 128 numbers are 5.4 GB.
  EXPECT_NEAR(e.peak_bytes, 5.48e9 + 192.9e6 * (tiles_available() ? 2 : 4), 0.1e9);
  // 35 whole layers and a last one of queries and keys; attention is 4 n^2 / 2 channels.
  EXPECT_NEAR(e.linear_flop, 2 * 65536000.0 * (35 * 192.9e6 + 21e6), 1e15);
  EXPECT_NEAR(e.attention_flop, 500 * 35 * 2 * 131072.0 * 131072 * 4096, 1e14);
  EXPECT_THAT(printed, HasSubstr("36 captured: 0-35"));
  EXPECT_THAT(printed, HasSubstr("300 query heads"));
  EXPECT_THAT(
      printed,
      HasSubstr("rotary       yarn, factor 1 (planes 0-23) to 4 (planes 40-63), base 1000000, 64 planes, 24 of which "
                "turn less than once in 131072 tokens, q and k times 1.139"));
  EXPECT_QKGEOM_ERROR("is of Qwen/Qwen3-4B with 36 layers, but this model has 2",
                      plan("qwen3-4b", R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 99})"));
}

/// Pages of a file from byte `first` on that lie in memory. Those of a hole do once they have been read.
std::size_t pages_in_memory(const std::filesystem::path& path, std::size_t first) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size = std::filesystem::file_size(path), pages = (size + page - 1) / page;
  const int file = ::open(path.c_str(), O_RDONLY);
  void* const map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  std::vector<unsigned char> there(pages);
  EXPECT_EQ(::mincore(map, size, there.data()), 0);
  ::munmap(map, size);
  ::close(file);
  return static_cast<std::size_t>(std::count_if(there.begin() + static_cast<std::ptrdiff_t>(first / page), there.end(),
                                                [](unsigned char flags) { return (flags & 1) != 0; }));
}

TEST_F(estimates, a_gguf_file_is_planned_from_its_header_alone) {
  const auto original = folder / "original";
  std::filesystem::create_directory(original);
  test::write_original("qwen3", original);
  const auto plan_of = [&](const std::filesystem::path& model) {
    capture_options o;
    o.model.path = model;
    o.model.name = "tiny";
    o.statistics.loss = true;
    planned(o);
    return printed;
  };
  // Where the tensors' values should be there is a hole.
  const std::string bytes = test::loaded_gguf("qwen3", "F32").bytes();
  constexpr std::size_t header = 1 << 13;
  ASSERT_LT(bytes.rfind(".weight"), header);
  const auto file = folder / "m.gguf";
  test::put(file, bytes.substr(0, header));
  std::filesystem::resize_file(file, bytes.size());
  EXPECT_EQ(plan_of(file), plan_of(original));
  EXPECT_EQ(pages_in_memory(file, header), 0u);
  std::filesystem::resize_file(file, bytes.size() - 1);
  EXPECT_QKGEOM_ERROR("the file ends within tensor", plan_of(file));
}

TEST_F(estimates, losses_take_whole_layers_and_a_piece_of_the_output_matrix) {
  test::put(folder / "config.json", qwen3_8b);
  capture_options o;
  o.model.path = folder.path();
  o.inputs.count = 1;
  o.selection.max_length = 256;
  o.selection.layers = std::vector<index_t>{0};
  const auto without = planned(o);
  o.statistics.loss = true;
  const auto with = planned(o);
  // Layer 0's queries and keys become a whole layer; 2048 words of the output matrix; logits of 256 tokens a thread.
  EXPECT_NEAR(with.peak_bytes - without.peak_bytes, 4 * (192.9e6 - 21e6 + 2048 * 4096 + 2 * 256 * 2048), 1e6);
  EXPECT_GT(with.linear_flop, 36 * without.linear_flop);
}

// Softmax statistics and losses are in memory until their shard is written; for short documents they are most of it.
TEST_F(estimates, the_sums_of_softmax_and_losses_are_counted) {
  capture_options o;
  o.model.path = std::filesystem::path(QKGEOM_EXAMPLE_DATA) / "kjv-smollm3" / "stage1-step-1000";
  o.selection.max_length = 64;
  o.inputs.count = 300;  // of a shard's 16384 tokens
  const auto without = planned(o);
  o.statistics.softmax = o.statistics.loss = true;
  const auto with = planned(o);
  // Per bucket: three masses, seven distances (up to 64 tokens) and the entropy of each head; queries of each layer;
  // loss and tokens.
  const double document = 8.0 * 16 * (64 * (3 + 7 + 1) + 8 + 2);
  EXPECT_EQ(with.statistics_bytes, 300 * document);
  EXPECT_GT(with.peak_bytes - without.peak_bytes, 256 * document);
  EXPECT_THAT(printed, HasSubstr("and 27.4 MB of softmax and losses"));
}

TEST_F(estimates, heads_of_layers_without_data_are_counted_and_passed_over) {
  const auto e = plan(
      "llama3.2-11b",
      R"({"model_type": "mllama", "text_config": {"model_type": "mllama_text_model", "rope_scaling": {"rope_type": "llama3",
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}})");
  EXPECT_EQ(e.query_heads, 239);  // the thesis has 239 heads of this model
  EXPECT_EQ(e.manifest.layers.size(), 32u);
  EXPECT_THAT(notes.str(), HasSubstr("61 of the 300 heads"));
}

// The rotary embedding in words. With `turns` = theta^(-2i/d) tokens / 2 pi of plane i, planes were counted outside of
// qkgeom, by these formulas and by the frequencies of transformers' ROPE_INIT_FUNCTIONS.

/// The config.json of the bundled model ("kjv"), of a plain one ("llama") or of a family's fixture.
json model_config(const std::string& name) {
  if (name == "llama")
    return {{"model_type", "llama"},           {"hidden_size", 4096},    {"intermediate_size", 64},
            {"num_attention_heads", 32},       {"num_hidden_layers", 2}, {"vocab_size", 99},
            {"max_position_embeddings", 8192}, {"rope_theta", 500000}};
  return read_json(
      (name == "kjv" ? QKGEOM_EXAMPLE_DATA "/kjv-smollm3/stage1-step-1000" : QKGEOM_TEST_DATA "/families/" + name) +
      "/config.json");
}

/// Lines of rope-words.json: a model, fields put over its own, a scaling, the context, lengths of documents, the words
/// ("..." for their rest), and perhaps why.
TEST(rope_in_force, is_said_as_the_table_says) {
  for (const json& line : test::json_data("rope-words.json")) {
    json config = model_config(line[0]);
    config.merge_patch(line[1]);
    if (line[2] != "") config = with_rope_scaling(config, line[2]);
    std::string words = line[5], found = rope_in_force(read_description(config), line[3], line[4]);
    if (words.ends_with("...")) {
      words.resize(words.size() - 3);
      found.resize(std::min(found.size(), words.size()));
    }
    EXPECT_EQ(found, words) << line;
  }
}

}  // namespace
}  // namespace qkgeom
