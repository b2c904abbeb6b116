// SPDX-License-Identifier: MIT
#include "capture/job/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>
#include <sstream>

#include "capture/model/head_changes.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using ::testing::HasSubstr;

/// CPython's random.Random(seed).sample(range(n), count) for seeds of one word, sorted, after the published algorithm:
/// a Mersenne twister seeded by an array, whose top bits draw from a pool of numbers or avoid a set of those taken.
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
    text >> generator_;
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
    while (r >= n) r = static_cast<index_t>(generator_() >> (32 - bits));
    return r;
  }
  std::mt19937 generator_;
};

TEST(protocol, every_one_holds_the_heads_that_the_thesis_draws) {
  std::set<std::string> models;
  int thesis = 0, templates = 0;
  for (const builtin_protocol& s : builtin_protocols()) {
    const capture_options o = parse_protocol(s.text, std::string(s.name));
    const bool is_template = s.name.substr(0, 10) == "templates/";
    (is_template ? templates : thesis) += 1;
    if (!is_template) {
      EXPECT_EQ(o.protocol.name, s.name);
    }
    models.insert(o.protocol.model);
    const protocol_facts& f = o.protocol;
    std::vector<head_id> drawn;
    for (const index_t pair :
         python_sample(0)(f.n_layers * f.n_query_heads, std::min<index_t>(300, f.n_layers * f.n_query_heads)))
      drawn.push_back({pair / f.n_query_heads, pair % f.n_query_heads});
    EXPECT_EQ(o.selection.head_list, drawn) << s.name;
    EXPECT_EQ(o.model.compute, compute_type::bf16);
    EXPECT_FALSE(o.selection.pre_rope);
    EXPECT_FALSE(o.selection.include_windowed);
    EXPECT_EQ(o.selection.sampler.rate, 1.0);
    const bool sixteenth = is_template || f.model == "HuggingFaceTB/SmolLM3-3B-checkpoints";
    EXPECT_EQ(o.selection.sampler.bucket_size, sixteenth ? o.selection.max_length / 16 : 8192) << s.name;
    EXPECT_EQ(o.model.rope_scaling, f.model.substr(0, 10) == "Qwen/Qwen3" ? "yarn:4.0:32768" : "") << s.name;
    EXPECT_FALSE(o.model.family.empty());
  }
  EXPECT_EQ(thesis, 23);
  EXPECT_EQ(templates, 5);
  EXPECT_EQ(models.size(), 14u + 5u);
}

// The thesis' list for Qwen3 8B begins like this (its published capture).
TEST(protocol, the_first_layer_of_a_list) {
  const auto o = find_protocol("qwen3-8b");
  std::vector<index_t> first;
  for (const head_id& h : o.selection.head_list)
    if (h.layer == 0) first.push_back(h.head);
  EXPECT_THAT(first, ::testing::ElementsAre(0, 2, 3, 4, 6, 16, 18, 25, 27, 28, 29, 30));
  EXPECT_EQ(o.selection.max_length, 131072);
  EXPECT_EQ(find_protocol("smollm3-lc-32k-to-64k-step-4000").protocol.tokenizer, "HuggingFaceTB/SmolLM3-3B");
  EXPECT_EQ(find_protocol("smollm3-lc-32k-to-64k-step-4000").model.revision, "lc-32k-to-64k-step-4000");
}

TEST(protocol, damaged_files_are_refused_by_field) {
  const auto refused = [](const std::string& text) {
    return test::message_of([&] { parse_protocol(text, "s.json"); });
  };
  EXPECT_THAT(refused(R"({"study": "x", "bucketsize": 3})"), HasSubstr("no field \"bucketsize\""));
  EXPECT_THAT(refused(R"({"model": "x"})"), HasSubstr("study"));
  EXPECT_THAT(refused(R"({"study": "x", "dtype": "f8"})"), HasSubstr("one of f32, bf16, not \"f8\""));
  EXPECT_THAT(refused(R"({"study": "x", "rate": 0})"), HasSubstr("rate"));
  EXPECT_THAT(refused(R"({"study": "x", "heads": {"0": [1, 1]}})"), HasSubstr("layer 0 head 1 twice"));
  EXPECT_THAT(refused(R"({"study": "x", "heads": {"a": [1]}})"), HasSubstr("'a'"));
  EXPECT_THAT(refused(R"({"study": "x", "heads": {}})"), HasSubstr("no head"));
  EXPECT_THAT(test::message_of([] { find_protocol("qwen9"); }), HasSubstr("qwen3-8b, "));
}

TEST(protocol, head_lists_as_words_and_as_json) {
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

}  // namespace
}  // namespace qkgeom
