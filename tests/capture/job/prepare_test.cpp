// SPDX-License-Identifier: MIT
// The rotary embedding in words. With `turns` = theta^(-2i/d) tokens / 2 pi of plane i, planes were counted outside of
// qkgeom, by these formulas and by the frequencies of transformers' ROPE_INIT_FUNCTIONS.
#include "capture/job/prepare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qkgeom {
namespace {

const json plain_model{{"model_type", "llama"},           {"hidden_size", 4096},    {"intermediate_size", 64},
                       {"num_attention_heads", 32},       {"num_hidden_layers", 2}, {"vocab_size", 99},
                       {"max_position_embeddings", 8192}, {"rope_theta", 500000}};

std::string rope_scaled(const std::string& scaling, index_t context) {
  return rope_in_force(read_description(with_rope_scaling(plain_model, scaling)), context);
}
std::string rope_of_family(const std::string& name, index_t context) {
  const auto folder = std::filesystem::path(QKGEOM_TEST_DATA) / "families" / name;
  return rope_in_force(read_description(read_json(folder / "config.json")), context);
}

TEST(rope_in_force, names_base_and_planes_that_turn_less_than_once) {
  // One turn in 8192 tokens: i = 64 ln(8192 / 2 pi) / ln 5e5 = 34.98.
  EXPECT_EQ(rope_scaled("none", 8192),
            "no scaling, base 500000, 64 planes, 29 of which turn less than once in 8192 tokens");
  EXPECT_EQ(rope_scaled("linear:4", 8192),
            "linear, factor 4, base 500000, 64 planes, 35 of which turn less than once in 8192 tokens");
}

TEST(rope_in_force, names_the_edges_of_the_band_that_is_scaled_in_part) {
  // 4 turns in the original 8192 tokens: i = 28.22; 1 turn: 34.98.
  EXPECT_EQ(
      rope_scaled("llama3:8:1:4:8192", 131072),
      "llama3, factor 1 (planes 0-28) to 8 (planes 35-63), base 500000, 64 planes, 25 of which turn less than once "
      "in 131072 tokens");
  // 32 turns: i = 18.08, rounded down; 1 turn: rounded up.
  EXPECT_EQ(
      rope_scaled("yarn:4:8192", 32768),
      "yarn, factor 1 (planes 0-18) to 4 (planes 35-63), base 500000, 64 planes, 29 of which turn less than once in "
      "32768 tokens, q and k times 1.139");
}

TEST(rope_in_force, follows_the_length_of_documents) {
  // Every factor of the fixture is another one.
  EXPECT_EQ(rope_of_family("phi3", 64),
            "longrope, factor 1 (plane 0) to 1.6 (plane 3), base 1000, 4 planes, 2 of which turn less than once in 64 "
            "tokens, q and k times 1.155");
  EXPECT_EQ(rope_of_family("phi3", 256),
            "longrope, factor 1 (plane 0) to 4 (plane 3), base 1000, 4 planes, 2 of which turn less than once in 256 "
            "tokens, q and k times 1.155");
  EXPECT_EQ(rope_scaled("dynamic:2", 8192),
            "dynamic, base 500000, 64 planes, 29 of which turn less than once in 8192 tokens");
  // The last plane's factor is 2 * 32768 / 8192 - 1.
  EXPECT_EQ(
      rope_scaled("dynamic:2", 32768),
      "dynamic, factor 1 (plane 0) to 7 (plane 63), base 500000, 64 planes, 27 of which turn less than once in 32768 "
      "tokens");
}

TEST(rope_in_force, names_the_factors_that_documents_have) {
  const auto phi3 = read_description(read_json(std::filesystem::path(QKGEOM_TEST_DATA) / "families/phi3/config.json"));
  const auto of_short = rope_in_force(phi3, 256, {12, 64}), of_both = rope_in_force(phi3, 256, {12, 80, 65});
  EXPECT_THAT(of_short, testing::StartsWith("longrope, factor 1 (plane 0) to 1.6 (plane 3), base 1000"));
  EXPECT_THAT(of_both, testing::StartsWith("longrope, factor 1 (plane 0) to 1.6 (plane 3) in documents of up to 64 "
                                           "tokens, factor 1 (plane 0) to 4 (plane 3) in one of 80, base 1000"));
  EXPECT_EQ(rope_in_force(phi3, 256, {65, 256}), rope_in_force(phi3, 256));
  const auto dynamic = read_description(with_rope_scaling(plain_model, "dynamic:2"));
  EXPECT_THAT(rope_in_force(dynamic, 32768, {10, 32768}),
              testing::StartsWith("dynamic, factor 1 in documents of up to 8192 tokens, factor 1 (plane 0) to 7 (plane "
                                  "63) in one of 32768, base 500000"));
}

TEST(rope_in_force, names_layers_with_another_embedding_and_those_without) {
  EXPECT_EQ(
      rope_of_family("gemma3-text", 256),
      "linear, factor 8, base 1000000, 10 planes, 8 of which turn less than once in 256 tokens; in windowed layers "
      "no scaling, base 1000, 10 planes, 4 of which turn less than once in 256 tokens");
  // 5 of 12 planes turn at all.
  EXPECT_EQ(rope_of_family("gemma4-text", 256),
            "proportional, base 10000, 12 planes, 7 of which turn less than once in 256 tokens; in windowed layers no "
            "scaling, base 1000, 10 planes, 4 of which turn less than once in 256 tokens");
  auto config = read_json(std::filesystem::path(QKGEOM_TEST_DATA) / "families/gemma4-text/config.json");
  config["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 0.01;
  EXPECT_THAT(rope_in_force(read_description(config), 256),
              testing::StartsWith("proportional, base 10000, 12 planes, 12 of which turn less than once"));
  config = read_json(std::filesystem::path(QKGEOM_EXAMPLE_DATA) / "kjv-smollm3/stage1-step-1000/config.json");
  EXPECT_EQ(rope_in_force(read_description(config), 512),
            "no scaling, base 10000, 16 planes, 8 of which turn less than once in 512 tokens; 2 of 8 layers without");
  config["no_rope_layers"] = std::vector(8, 0);
  EXPECT_EQ(rope_in_force(read_description(config), 512), "none");
}

}  // namespace
}  // namespace qkgeom
