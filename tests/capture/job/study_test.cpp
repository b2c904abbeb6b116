// SPDX-License-Identifier: MIT
// Studies as files, head lists, the command line, and what a capture would take.
#include "capture/job/study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "capture/arguments.hpp"
#include "capture/forward/products/amx.hpp"
#include "capture/job/estimate.hpp"
#include "capture/model/head_list.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using ::testing::HasSubstr;

/// CPython's random.Random(seed).sample(range(n), count) for seeds of one word, written after the published algorithm:
/// Mersenne twister seeded by an array, bits taken from the top, a pool of numbers or a set of those taken.
class python_sample {
 public:
  explicit python_sample(std::uint32_t seed) {
    std::uint32_t s[624];
    s[0] = 19650218u;
    for (std::uint32_t i = 1; i < 624; ++i) s[i] = 1812433253u * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
    std::uint32_t i = 1;
    const auto next = [&] {
      if (++i < 624) return;
      s[0] = s[623];
      i = 1;
    };
    for (int k = 0; k < 624; ++k, next()) s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + seed;
    for (int k = 0; k < 623; ++k, next()) s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) - i;
    s[0] = 0x80000000u;
    std::stringstream text;
    for (const std::uint32_t word : s) text << word << ' ';
    text << 624;
    text >> launcher_;
  }
  std::vector<index_t> operator()(index_t n, index_t count) {
    index_t small = 21;
    for (index_t size = 1; count > 5 && small == 21; size *= 4)
      if (size >= count * 3) small += size;
    std::vector<index_t> pool(n), chosen;
    for (index_t i = 0; i < n; ++i) pool[i] = i;
    std::set<index_t> taken;
    for (index_t i = 0; i < count; ++i) {
      index_t j = below(n <= small ? n - i : n);
      if (n <= small) {
        chosen.push_back(pool[j]);
        pool[j] = pool[n - i - 1];
        continue;
      }
      while (!taken.insert(j).second) j = below(n);
      chosen.push_back(j);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

 private:
  index_t below(index_t n) {
    const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n)));
    index_t r = n;
    while (r >= n) r = static_cast<index_t>(launcher_() >> (32 - bits));
    return r;
  }
  std::mt19937 launcher_;
};

TEST(study, every_study_holds_the_heads_that_the_thesis_protocol_draws) {
  std::set<std::string> models;
  int thesis = 0, templates = 0;
  for (const builtin_study& s : builtin_studies()) {
    const capture_options o = parse_study(s.text, std::string(s.name));
    const bool is_template = s.name.substr(0, 10) == "templates/";
    (is_template ? templates : thesis) += 1;
    if (!is_template) {
      EXPECT_EQ(o.study.name, s.name);
    }
    models.insert(o.study.model);
    const study_facts& f = o.study;
    std::vector<head_id> drawn;
    for (const index_t pair :
         python_sample(0)(f.n_layers * f.n_query_heads, std::min<index_t>(300, f.n_layers * f.n_query_heads)))
      drawn.push_back({pair / f.n_query_heads, pair % f.n_query_heads});
    EXPECT_EQ(o.plan.head_list, drawn) << s.name;
    EXPECT_EQ(o.plan.compute, compute_type::bf16);
    EXPECT_EQ(o.plan.stage, rope_stage::post);
    EXPECT_FALSE(o.plan.include_windowed);
    EXPECT_EQ(o.plan.sampler.rate, 1.0);
    const bool sixteenth = is_template || f.model == "HuggingFaceTB/SmolLM3-3B-checkpoints";
    EXPECT_EQ(o.plan.sampler.bucket_size, sixteenth ? o.plan.max_length / 16 : 8192) << s.name;
    EXPECT_EQ(o.rope_scaling, f.model.substr(0, 10) == "Qwen/Qwen3" ? "yarn:4.0:32768" : "") << s.name;
    EXPECT_FALSE(o.family.empty());
  }
  EXPECT_EQ(thesis, 23);
  EXPECT_EQ(templates, 5);
  EXPECT_EQ(models.size(), 14u + 5u);
}

// The thesis' list for Qwen3 8B begins like this (its published capture).
TEST(study, the_first_layer_of_a_list) {
  const auto o = find_study("qwen3-8b");
  std::vector<index_t> first;
  for (const head_id& h : o.plan.head_list)
    if (h.layer == 0) first.push_back(h.head);
  EXPECT_THAT(first, ::testing::ElementsAre(0, 2, 3, 4, 6, 16, 18, 25, 27, 28, 29, 30));
  EXPECT_EQ(o.plan.max_length, 131072);
  EXPECT_EQ(find_study("smollm3-lc-32k-to-64k-step-4000").study.tokenizer, "HuggingFaceTB/SmolLM3-3B");
  EXPECT_EQ(find_study("smollm3-lc-32k-to-64k-step-4000").revision, "lc-32k-to-64k-step-4000");
}

TEST(study, damaged_files_are_refused_by_field) {
  const auto refused = [](const std::string& text) { return test::message_of([&] { parse_study(text, "s.json"); }); };
  EXPECT_THAT(refused(R"({"study": "x", "bucketsize": 3})"), HasSubstr("no field \"bucketsize\""));
  EXPECT_THAT(refused(R"({"model": "x"})"), HasSubstr("study"));
  EXPECT_THAT(refused(R"({"study": "x", "dtype": "f8"})"), HasSubstr("one of f32, bf16, not \"f8\""));
  EXPECT_THAT(refused(R"({"study": "x", "rate": 0})"), HasSubstr("rate"));
  EXPECT_THAT(refused(R"({"study": "x", "heads": {"0": [1, 1]}})"), HasSubstr("layer 0 head 1 twice"));
  EXPECT_THAT(refused(R"({"study": "x", "heads": {"a": [1]}})"), HasSubstr("'a'"));
  EXPECT_THAT(refused(R"({"study": "x", "heads": {}})"), HasSubstr("no head"));
  EXPECT_THAT(test::message_of([] { find_study("qwen9"); }), HasSubstr("qwen3-8b, "));
}

TEST(study, head_lists_as_words_and_as_json) {
  const test::scratch_folder folder;
  const auto read = [&](const std::string& text) {
    test::put(folder / "heads", text);
    return read_head_list(folder / "heads");
  };
  const std::vector<head_id> expected{{0, 3}, {2, 0}, {11, 31}};
  EXPECT_EQ(read("# layer.head\n2.0, 0.3\r\n11.31 # the last\n"), expected);
  EXPECT_EQ(read(R"( {"11": [31], "0": [3], "2": [0]})"), expected);
  EXPECT_THAT(test::message_of([&] { read("2.0 3"); }), HasSubstr("LAYER.HEAD, e.g. 3.12, not '3'"));
  EXPECT_THAT(test::message_of([&] { read("2.x"); }), HasSubstr("'x'"));
  EXPECT_THAT(test::message_of([&] { read("2.1 2.1"); }), HasSubstr("twice"));
  EXPECT_THAT(test::message_of([&] { read("# none\n"); }), HasSubstr("no head"));
}

capture_arguments parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "qkgeom-capture");
  return *parse_arguments(static_cast<int>(words.size()), words.data());
}

TEST(study, options_of_the_command_line_go_before_the_study_s) {
  auto a = parsed({"--study", "smollm3-stage1-step-40000", "--model", "m", "--text", "t", "--out", "o"}).options;
  EXPECT_EQ(a.plan.max_length, 4096);
  EXPECT_EQ(a.plan.sampler.bucket_size, 256);
  EXPECT_EQ(a.plan.head_list.size(), 300u);
  EXPECT_EQ(a.plan.compute, compute_type::bf16);
  EXPECT_EQ(a.revision, "stage1-step-40000");
  EXPECT_EQ(a.family, "SmolLM3");
  a = parsed({"--max-length",
              "64",
              "--study=smollm3-stage1-step-40000",
              "--model",
              "m",
              "--text",
              "t",
              "--out",
              "o",
              "--dtype",
              "f32",
              "--heads",
              "5",
              "--rate",
              "2",
              "--family",
              "mine",
              "--skip-first",
              "4",
              "--same-positions",
              "--sampler",
              "log2",
              "--prepend-bos",
              "--rope-theta",
              "5e4",
              "--rope-scaling",
              "none"})
          .options;
  EXPECT_EQ(a.plan.max_length, 64);
  EXPECT_EQ(a.plan.compute, compute_type::f32);
  EXPECT_TRUE(a.plan.head_list.empty());
  EXPECT_EQ(a.plan.heads, 5);
  EXPECT_EQ(a.plan.sampler.rate, 2);
  EXPECT_EQ(a.plan.sampler.skip_first, 4);
  EXPECT_EQ(a.plan.sampler.kind, sampler_kind::log2);
  EXPECT_TRUE(a.plan.same_positions);
  EXPECT_EQ(a.bos, bos_rule::prepend);
  EXPECT_EQ(a.rope_theta, 5e4);
  EXPECT_EQ(a.rope_scaling, "none");
  EXPECT_EQ(a.family, "mine");
  EXPECT_EQ(parsed({"--model", "m", "--text", "t", "--out", "o", "--threads", "0"}).options.threads, 0);
  EXPECT_THAT(test::message_of([] { parsed({"--model", "m", "--out", "o"}); }), HasSubstr("--jsonl or --text"));
  EXPECT_THAT(test::message_of([] { parsed({"--model", "m", "--text", "t"}); }), HasSubstr("--out"));
  EXPECT_THAT(test::message_of([] {
                parsed({"--model", "m", "--text", "t", "--out", "o", "--no-bos", "--prepend-bos"});
              }),
              HasSubstr("excludes"));
  EXPECT_THAT(test::message_of([] {
                parsed({"--model", "m", "--text", "t", "--out", "o", "--rope-theta", "0"});
              }),
              HasSubstr("--rope-theta"));
}

TEST(study, evaluations_take_its_model_and_documents_but_not_its_heads) {
  const std::vector<const char*> words{"qkgeom-evaluate", "--study", "qwen3-8b", "--model", "m", "--out", "o"};
  const auto study = parsed({"--study", "qwen3-8b", "--model", "m", "--text", "t", "--out", "o"}).options;
  ASSERT_FALSE(study.rope_scaling.empty());
  const auto o = parse_evaluation(static_cast<int>(words.size()), words.data())->capture;
  EXPECT_EQ(o.rope_scaling, study.rope_scaling);
  EXPECT_EQ(o.plan.max_length, study.plan.max_length);
  EXPECT_EQ(o.plan.compute, study.plan.compute);
  EXPECT_TRUE(o.plan.head_list.empty() && !o.plan.heads && o.plan.layers.empty());
  EXPECT_TRUE(o.plan.include_windowed);
  const std::vector<const char*> wrong{"qkgeom-evaluate", "--study", "none-such", "--model", "m", "--out", "o"};
  EXPECT_THROW(parse_evaluation(static_cast<int>(wrong.size()), wrong.data()), error);
}

/// A folder with nothing but a config.json.
class plan_only : public ::testing::Test {
 protected:
  capture_estimate plan(const std::string& study_name, const std::string& config) {
    test::put(folder / "config.json", config);
    capture_options o = find_study(study_name);
    o.model = folder.path();
    o.threads = 2;
    o.documents.count = 500;
    std::ostringstream text;
    notes.str("");
    const auto e = estimate_capture(o, notes);
    print_estimate(text, e);
    printed = text.str();
    return e;
  }
  const test::scratch_folder folder;
  std::ostringstream notes;
  std::string printed;
};

TEST_F(plan_only, a_study_is_planned_from_config_json_alone) {
  const auto e = plan("qwen3-8b", R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 36, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6})");
  EXPECT_EQ(e.query_heads, 300);
  EXPECT_EQ(e.manifest.layers.size(), 36u);
  EXPECT_EQ(e.manifest.rope->attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(e.tokens, 500 * 131072);
  EXPECT_NEAR(e.query_rows, 36 * 500 * 16, 1e-6);  // a token in 8192 of each layer
  EXPECT_NEAR(e.bytes, 500 * 16 * ((300.0 + static_cast<double>(e.key_heads)) * 128 * 2 + 36 * 24), 1);
  // A layer has 192.9 M weights, 4 bytes each, or 2 where the CPU multiplies bf16 tiles; 131072 tokens of
  // 4096 + 4096 + 2048 + 128 numbers are 5.4 GB.
  EXPECT_NEAR(e.peak_bytes, 5.48e9 + 192.9e6 * (amx_available() ? 2 : 4), 0.1e9);
  // 35 whole layers and a last one of queries and keys; attention is 4 n^2 / 2 channels.
  EXPECT_NEAR(e.linear_flop, 2 * 65536000.0 * (35 * 192.9e6 + 21e6), 1e15);
  EXPECT_NEAR(e.attention_flop, 500 * 35 * 2 * 131072.0 * 131072 * 4096, 1e14);
  EXPECT_THAT(printed, HasSubstr("36 captured: 0-35"));
  EXPECT_THAT(printed, HasSubstr("300 query heads"));
  EXPECT_THAT(test::message_of([&] {
                plan("qwen3-4b", R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 99})");
              }),
              HasSubstr("is of Qwen/Qwen3-4B with 36 layers, but this model has 2"));
}

TEST_F(plan_only, losses_take_whole_layers_and_a_piece_of_the_output_matrix) {
  test::put(folder / "config.json", R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 36, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6})");
  capture_options o;
  o.model = folder.path();
  o.threads = 2;
  o.documents.count = 1;
  o.plan.max_length = 256;
  o.plan.layers = std::vector<index_t>{0};
  const auto without = estimate_capture(o, notes);
  o.loss = true;
  const auto with = estimate_capture(o, notes);
  // Layer 0's queries and keys become a whole layer; 2048 words of the output matrix; logits of 256 tokens a thread.
  EXPECT_NEAR(with.peak_bytes - without.peak_bytes, 4 * (192.9e6 - 21e6 + 2048 * 4096 + 2 * 256 * 2048), 1e6);
  EXPECT_GT(with.linear_flop, 36 * without.linear_flop);
}

// What softmax and losses keep by document is in memory until a shard is written; of short documents it is most of it.
TEST_F(plan_only, the_sums_of_softmax_and_losses_are_counted) {
  capture_options o;
  o.model = std::filesystem::path(QKGEOM_EXAMPLE_DATA) / "kjv-smollm3" / "stage1-step-1000";
  o.plan.max_length = 64;
  o.documents.count = 300;  // of a shard's 16384 tokens
  const auto without = estimate_capture(o, notes);
  o.softmax = o.loss = true;
  const auto with = estimate_capture(o, notes);
  // Of each bucket: three masses, seven distances (up to 64 tokens) and the entropy of a head, the queries of a layer,
  // the loss and its tokens.
  const double document = 8.0 * 16 * (64 * (3 + 7 + 1) + 8 + 2);
  EXPECT_EQ(with.statistics_bytes, 300 * document);
  EXPECT_GT(with.peak_bytes - without.peak_bytes, 256 * document);
  std::ostringstream text;
  print_estimate(text, with);
  EXPECT_THAT(text.str(), HasSubstr("and 27.4 MB of softmax and losses"));
}

TEST_F(plan_only, heads_of_layers_without_data_are_counted_and_passed_over) {
  const auto e = plan(
      "llama3.2-11b",
      R"({"model_type": "mllama", "text_config": {"model_type": "mllama_text_model", "rope_scaling": {"rope_type": "llama3",
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}})");
  EXPECT_EQ(e.query_heads, 239);  // the thesis has 239 heads of this model
  EXPECT_EQ(e.manifest.layers.size(), 32u);
  EXPECT_THAT(notes.str(), HasSubstr("61 of the 300 heads"));
}

}  // namespace
}  // namespace qkgeom
