// SPDX-License-Identifier: MIT
// The rotary embedding in words. With `turns` = theta^(-2i/d) tokens / 2 pi of plane i, planes were counted outside of
// qkgeom, by these formulas and by the frequencies of transformers' ROPE_INIT_FUNCTIONS.
#include "capture/job/prepare.hpp"

#include "tests/common/data_files.hpp"

namespace qkgeom {
namespace {

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
