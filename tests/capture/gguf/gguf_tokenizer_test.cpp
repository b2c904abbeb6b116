// SPDX-License-Identifier: MIT
// The tokenizer of a GGUF file gives the ids of llama.cpp (tests/data/make_gguf_tokenizers.py).
#include "capture/gguf/gguf_model.hpp"
#include "capture/text/tokenizer.hpp"
#include "tests/capture/gguf/gguf_fixture.hpp"
#include "tests/capture/text/token_ids.hpp"
#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;

/// The tokenizer of the smallest model around it.
tokenizer tokenizer_of(const json& keys) {
  test::written_gguf w;
  w.keys = {{"general.architecture", "llama"},
            {"llama.block_count", 1},
            {"llama.context_length", 64},
            {"llama.embedding_length", 4},
            {"llama.feed_forward_length", 4},
            {"llama.attention.head_count", 1},
            {"llama.attention.layer_norm_rms_epsilon", 1e-5}};
  w.tensors = {{"token_embd.weight", {1, 4}, "F32", std::vector<float>(4, 1)}};
  for (const auto& [key, value] : keys.items()) w.keys.emplace_back("tokenizer.ggml." + key, value);
  const test::scratch_folder folder;
  test::put(folder / "t.gguf", w.bytes());
  return {gguf_model(folder / "t.gguf").tokenizer(), nlohmann::json()};
}

class gguf_tokenizer : public testing::Test {
 protected:
  json fixture = test::json_data("gguf-tokenizers.json"), texts = test::json_data("tokenizers/texts.json");

  void SetUp() override {
    for (const auto& t : fixture["others"]) texts.push_back(t);
  }
  void expect_the_ids(const json& keys, const std::string& name) const {
    const tokenizer t = tokenizer_of(keys);
    ASSERT_EQ(fixture["hashes"][name].size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(test::fnv1a(t.encode(texts[i].get<std::string>(), test::no_limit)), fixture["hashes"][name][i])
          << name << ": " << texts[i].dump().substr(0, 60);
  }
  /// `keys` with the tokens and merges of a tokenizer.json.
  static json keys_of(const std::string& name, json keys) {
    const json bpe = read_json(std::string(QKGEOM_TEST_DATA) + "/tokenizers/" + name);
    std::vector<std::string> tokens(bpe["model"]["vocab"].size());
    std::vector<int> types(tokens.size(), 1);
    for (const auto& [token, id] : bpe["model"]["vocab"].items()) tokens[id.get<std::size_t>()] = token;
    for (const auto& t : bpe["added_tokens"]) types[t["id"].get<std::size_t>()] = 3;
    keys["tokens"] = tokens;
    keys["token_type"] = types;
    for (const auto& m : bpe["model"]["merges"])
      keys["merges"].push_back(m.is_string() ? m.get<std::string>()
                                             : m[0].get<std::string>() + ' ' + m[1].get<std::string>());
    return keys;
  }
};

TEST_F(gguf_tokenizer, of_sentencepiece_gives_the_ids_of_llama_cpp) {
  json keys = fixture["keys"];
  expect_the_ids(keys, "with_space");
  keys["add_space_prefix"] = false;
  expect_the_ids(keys, "without_space");
}

TEST_F(gguf_tokenizer, of_every_text_rule_gives_the_ids_of_llama_cpp) {
  int rules = 0;
  for (const auto& [name, hashes] : fixture["hashes"].items()) {
    if (name.ends_with("_space") || name == "gemma4") continue;
    expect_the_ids(keys_of("llama3.json", {{"model", "gpt2"}, {"pre", name}, {"bos_token_id", 0}, {"eos_token_id", 1}}),
                   name);
    ++rules;
  }
  EXPECT_EQ(rules, 33);
}

TEST_F(gguf_tokenizer, of_gemma4_gives_the_ids_of_llama_cpp) {
  json keys = keys_of("gemma3.json", {{"model", "gemma4"}, {"bos_token_id", 2}, {"unknown_token_id", 3}});
  expect_the_ids(keys, "gemma4");
  keys["add_bos_token"] = false;  // llama.cpp puts it all the same
  expect_the_ids(keys, "gemma4");
}

TEST_F(gguf_tokenizer, puts_the_tokens_around_a_text_that_its_keys_name) {
  json keys = fixture["keys"];
  const auto around = [&](bool bos, bool eos) {
    keys["add_bos_token"] = bos;
    keys["add_eos_token"] = eos;
    return tokenizer_of(keys).encode("", test::no_limit);
  };
  EXPECT_EQ(around(false, false), test::ids());
  EXPECT_EQ(around(true, false), test::ids{1});
  EXPECT_EQ(around(false, true), test::ids{2});
  EXPECT_EQ(around(true, true), (test::ids{1, 2}));
}

TEST_F(gguf_tokenizer, pairs_of_one_score_merge_from_the_left) {
  // "aaaa" may become (a aa) a or a (aa a): SentencePiece takes the first of equal ones.
  const json keys{{"model", "llama"},
                  {"tokens", {"<unk>", "a", "aa", "aaa", "b", "ab"}},
                  {"scores", {0.0, 0.0, -1.0, -2.0, 0.0, -1.0}},
                  {"token_type", {2, 1, 1, 1, 1, 1}},
                  {"add_bos_token", false},
                  {"add_space_prefix", false}};
  const auto t = tokenizer_of(keys);
  EXPECT_EQ(t.encode("aaaa", 9), (test::ids{2, 2}));
  EXPECT_EQ(t.encode("aaa", 9), test::ids{3});
  EXPECT_EQ(t.encode("aab", 9), (test::ids{2, 4}));  // "aa" and "ab" have one score
  std::string many;
  for (int i = 0; i < 50; ++i) many += "aab";
  test::ids expected;
  for (int i = 0; i < 50; ++i) expected.insert(expected.end(), {2, 4});
  EXPECT_EQ(t.encode(many, 1000), expected);  // too long for the way of short words
}

TEST_F(gguf_tokenizer, bad_keys_are_refused) {
  test::expect_refusals("gguf_tokenizers", [&](const json& patch) {
    json keys = fixture["keys"];
    keys.merge_patch(patch);
    tokenizer_of(keys);
  });
  fixture["keys"]["tokens"][5] = std::string(40000, 'x');
  EXPECT_QKGEOM_ERROR("too long to be taken apart", tokenizer_of(fixture["keys"]));
}

}  // namespace
