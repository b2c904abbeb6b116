// SPDX-License-Identifier: MIT
// Token ids against those of the `tokenizers` library: of the bundled tokenizer (tests/data/make_token_ids.py), of
// small tokenizers of every scheme (make_tokenizers.py), and of random ones where the library is installed
// (fuzz_tokenizers.py).
#include "capture/text/tokenizer.hpp"
#include "capture/job/documents.hpp"
#include "capture/text/unicode.hpp"
#include "qkgeom/io/json.hpp"
#include "tests/capture/text/token_ids.hpp"
#include "tests/common/data_files.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::fnv1a;
using test::ids;
using test::no_limit;
using ::testing::HasSubstr;

const std::string folder = std::string(QKGEOM_EXAMPLE_DATA) + "/kjv-smollm3";

nlohmann::json patched(const nlohmann::json& patch) {
  auto file = read_json(folder + "/tokenizer.json");
  if (!patch.is_null()) file.merge_patch(patch);
  return file;
}
ids encode(const nlohmann::json& patch, std::string_view text, index_t limit = no_limit,
           const nlohmann::json& config = {}) {
  return tokenizer(patched(patch), config).encode(text, limit);
}
/// The message with which the patched tokenizer is refused.
std::string refusal(const nlohmann::json& patch, const nlohmann::json& config = {}) {
  return test::message_of([&] { tokenizer(patched(patch), config); });
}

TEST(tokenizer, ids_of_the_held_out_books_equal_the_library_s) {
  const auto& fixture = test::json_data("token-ids.json");
  const auto t = tokenizer::load(folder + "/tokenizer.json");
  index_t books = 0;
  document_list({.jsonl = folder + "/heldout.jsonl"}).for_each([&](index_t i, const document& d) {
    const auto& book = fixture["books"][i];
    const auto list = t.encode(d.text, no_limit);
    EXPECT_EQ(d.id, book["id"]);
    EXPECT_EQ(list.size(), book["count"]) << d.id;
    EXPECT_EQ(fnv1a(list), book["hash"]) << d.id;
    ++books;
  });
  EXPECT_EQ(books, 12);
}

TEST(tokenizer, nasty_texts_and_other_settings_equal_the_library_s) {
  const auto& fixture = test::json_data("token-ids.json");
  for (const auto& variant : fixture["variants"]) {
    const tokenizer t(patched(variant["patch"]), {});
    for (std::size_t i = 0; i < fixture["texts"].size(); ++i)
      EXPECT_EQ(t.encode(fixture["texts"][i].get<std::string>(), no_limit), variant["ids"][i].get<ids>())
          << variant["name"] << ", text " << i;
  }
}

TEST(tokenizer, a_limit_keeps_the_first_tokens_and_those_around) {
  const std::string text = "In the beginning God created the heaven and the earth.";
  const ids all = encode({}, text);
  ASSERT_GT(all.size(), 6u);
  EXPECT_EQ(encode({}, text, 5), ids(all.begin(), all.begin() + 5));
  EXPECT_EQ(encode({}, text, static_cast<index_t>(all.size())), all);
  EXPECT_EQ(encode({}, text, 0), ids());
  const auto token = [](const char* name) { return nlohmann::json{{"SpecialToken", {{"id", name}}}}; };
  const nlohmann::json around{{"post_processor",
                               {{"type", "TemplateProcessing"},
                                {"single", {token("b"), {{"Sequence", {{"id", "A"}}}}, token("e")}},
                                {"special_tokens", {{"b", {{"ids", {0}}}}, {"e", {{"ids", {1}}}}}}}}};
  EXPECT_EQ(encode(around, text, 5), (ids{0, all[0], all[1], all[2], 1}));
  EXPECT_EQ(encode(around, "", 5), (ids{0, 1}));
}

// transformers 5.24 gives these ids, whatever the two fields say.
TEST(tokenizer, the_post_processor_decides_and_tokenizer_config_is_held_against_it) {
  const nlohmann::json with_bos{{"post_processor",
                                 {{"type", "TemplateProcessing"},
                                  {"single", {{{"SpecialToken", {{"id", "b"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                                  {"special_tokens", {{"b", {{"ids", {7}}}}}}}}};
  EXPECT_EQ(encode(with_bos, "a").front(), 7);
  EXPECT_EQ(encode(with_bos, "a", no_limit, {{"add_bos_token", false}}).front(), 7);
  EXPECT_EQ(encode(with_bos, "a", no_limit, {{"model_max_length", 5}}).front(), 7);
  EXPECT_EQ(encode({}, "a", no_limit, {{"add_bos_token", true}, {"bos_token", "!"}}), encode({}, "a"));
  const auto said = [](const nlohmann::json& patch, nlohmann::json config) {
    config.update({{"bos_token", "!"}, {"eos_token", {{"content", "!"}}}});
    return tokenizer(patched(patch), config).contradiction();
  };
  auto with_own = with_bos;  // the token that tokenizer_config.json names
  with_own["post_processor"]["special_tokens"]["b"]["ids"] = {tokenizer(patched({}), {{"bos_token", "!"}}).bos()};
  EXPECT_THAT(said(with_own, {{"add_bos_token", false}}), HasSubstr("says add_bos_token false, but"));
  EXPECT_THAT(said({}, {{"add_bos_token", true}}), HasSubstr("puts no such token before a text"));
  EXPECT_THAT(said({}, {{"add_eos_token", true}}), HasSubstr("puts no such token after a text"));
  for (const auto& config :
       {nlohmann::json::object(), nlohmann::json{{"add_bos_token", true}, {"add_eos_token", false}}})
    EXPECT_EQ(said(with_own, config), "");
}

TEST(tokenizer, special_tokens_in_a_text_are_text_where_tokenizer_config_says_so) {
  const nlohmann::json added{
      {"added_tokens",
       {{{"id", 900}, {"content", "ab"}, {"special", true}}, {{"id", 901}, {"content", "cd"}, {"special", false}}}}};
  const auto plain = [&](const char* text) { return encode({}, text).size(); };
  ASSERT_GE(plain("xabx"), 3u);
  EXPECT_THAT(encode(added, "xabxcd"), testing::Contains(encode(added, "ab")[0]));
  const nlohmann::json split{{"split_special_tokens", true}};
  EXPECT_EQ(encode(added, "xabx", no_limit, split), encode({}, "xabx"));
  EXPECT_EQ(encode(added, "cd", no_limit, split), encode(added, "cd"));
}

TEST(tokenizer, unknown_kinds_are_refused_by_name) {
  test::expect_refusals("tokenizers", [](const nlohmann::json& patch) { tokenizer(patched(patch), {}); });
  EXPECT_THROW(tokenizer(nlohmann::json::object(), {}), error);
  EXPECT_THROW(tokenizer(nlohmann::json(3), {}), error);
}

TEST(tokenizer, stages_and_what_they_make_are_bounded) {
  const auto sequence = [](const nlohmann::json& step, int n) {
    return nlohmann::json{
        {"type", "Sequence"}, {"normalizers", std::vector(n, step)}, {"pretokenizers", std::vector(n, step)}};
  };
  const nlohmann::json strip{{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  EXPECT_EQ(encode({{"normalizer", sequence(strip, 64)}}, "a"), encode({}, "a"));
  for (const auto& steps : {sequence(strip, 65), sequence(sequence(strip, 12000), 1)})
    EXPECT_THAT(refusal({{"normalizer", steps}}), HasSubstr("normalizer has more than 64 steps"));
  EXPECT_THAT(refusal({{"pre_tokenizer", sequence({{"type", "Digits"}}, 65)}}),
              HasSubstr("pre_tokenizer has more than 64 steps"));

  const nlohmann::json twice{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const auto growth = [&](const nlohmann::json& patch) { return test::message_of([&] { encode(patch, "a"); }); };
  EXPECT_EQ(encode({{"normalizer", sequence(twice, 3)}}, "a"), encode({}, "aaaaaaaa"));
  EXPECT_THAT(growth({{"normalizer", sequence(twice, 40)}}), HasSubstr("make more than 100 times the text"));
  EXPECT_THAT(growth({{"pre_tokenizer", sequence({{"type", "ByteLevel"}, {"use_regex", false}}, 40)}}),
              HasSubstr("make more than 100 times the text"));
  const nlohmann::json long_token{{"content", std::string(5000, 'x')}, {"id", 1}};
  EXPECT_THAT(refusal({{"added_tokens", {long_token}}}), HasSubstr("content must be a string of at most 4096 bytes"));
}

TEST(tokenizer, errors_show_text_of_the_file_cut_and_without_controls) {
  const std::string bad = "\x1b[2J\n" + std::string(1, '\0') + std::string(1000, 'x');
  for (const auto& patch : std::vector<nlohmann::json>{{{"model", {{"type", bad}}}},
                                                       {{"model", {{"unk_token", bad}}}},
                                                       {{"model", {{"vocab", {{bad, -1}}}}}},
                                                       {{"model", {{"merges", nlohmann::json::array({bad})}}}},
                                                       {{"normalizer", {{"type", bad}}}},
                                                       {{"pre_tokenizer", {{"type", bad}}}},
                                                       {{"post_processor", {{"type", bad}}}}}) {
    const std::string text = refusal(patch);
    EXPECT_THAT(text, HasSubstr("?[2J??xxx"));
    EXPECT_LT(text.size(), 400u) << text;
  }
}

TEST(tokenizer, ill_formed_utf8_becomes_the_replacement_character) {
  using namespace std::string_literals;
  const std::string fffd = "\xef\xbf\xbd";
  EXPECT_EQ(replace_ill_formed("a\xff"s + "b\xc3"), "a" + fffd + "b" + fffd);
  EXPECT_EQ(replace_ill_formed("\xe2\x82"s + "x"), fffd + "x");                   // cut short: one
  EXPECT_EQ(replace_ill_formed("\xed\xa0\x80"s), fffd + fffd + fffd);             // a surrogate
  EXPECT_EQ(replace_ill_formed("\xf4\x90\x80\x80"s), fffd + fffd + fffd + fffd);  // beyond U+10FFFF
  EXPECT_EQ(replace_ill_formed("\xc0\xaf"s), fffd + fffd);                        // overlong
  EXPECT_EQ(replace_ill_formed("\xf0\x9f\x98\x80 ok"s), "\xf0\x9f\x98\x80 ok");
  EXPECT_EQ(encode({}, "a\xff"s), encode({}, "a" + fffd));
}

const std::string tokenizers = std::string(QKGEOM_TEST_DATA) + "/tokenizers/";

std::string repeated(const std::string& part, std::size_t at_least) {
  std::string text;
  text.reserve(at_least + part.size());
  while (text.size() < at_least) text += part;
  return text;
}

TEST(tokenizer_schemes, ids_equal_the_library_s) {
  const auto texts = read_json(tokenizers + "texts.json").get<std::vector<std::string>>();
  const auto expected = read_json(tokenizers + "ids.json");
  std::size_t schemes = 0;
  for (const auto& [name, lists] : expected["ids"].items()) {
    const auto t = tokenizer::load(tokenizers + name + ".json");
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(t.encode(texts[i], no_limit), lists[i].get<ids>()) << name << ", text " << i;
    ++schemes;
  }
  EXPECT_EQ(schemes, 7u);
}

TEST(tokenizer_schemes, ids_of_a_line_of_ten_megabytes_equal_the_library_s) {
  const auto expected = read_json(tokenizers + "long-line.json");
  std::string line;
  document_list({.jsonl = std::string(QKGEOM_EXAMPLE_DATA) + "/kjv-smollm3/heldout.jsonl"})
      .for_each([&](index_t, const document& d) { line += d.text + ' '; });
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = repeated(line, 10'000'000);
  EXPECT_EQ(line.size(), expected["bytes"]);
  EXPECT_EQ(expected["ids"].size(), 3u);
  for (const auto& [name, answer] : expected["ids"].items()) {
    const auto t = tokenizer::load(tokenizers + name + ".json");
    const ids all = t.encode(line, no_limit);
    EXPECT_EQ(all.size(), answer["count"]) << name;
    EXPECT_EQ(fnv1a(all), answer["hash"]) << name;
    EXPECT_EQ(t.encode(line, 1000), ids(all.begin(), all.begin() + 1000)) << name;
  }
}

// Ten times the text is ten times the work, counted and not timed; each byte is looked at a few times at most.
TEST(tokenizer_schemes, work_grows_with_the_text_and_not_with_its_square) {
  for (const std::string& file : {folder + "/tokenizer.json", tokenizers + "tekken.json", tokenizers + "mistral.json",
                                  tokenizers + "gemma3.json"}) {
    const auto t = tokenizer::load(file);
    for (const std::string part : {"a", " ", "A", "ab", "<"}) {
      const auto work = [&](std::size_t bytes) {
        const std::uint64_t before = t.lookups();
        t.encode(repeated(part, bytes), no_limit);
        return static_cast<double>(t.lookups() - before);
      };
      const double small = work(100'000), large = work(1'000'000);
      EXPECT_LT(large, 11 * small + 1e4) << file << " '" << part << "'";
      EXPECT_LT(large, 4.0 * 1'000'000) << file << " '" << part << "'";
    }
  }
}

/// One character of a document may become several pieces; Metaspace marks each one that stands for its first character.
/// Lines of metaspace.json: normalizers, pre-tokenizers, a text, and "_" and known characters, as the library gives
/// them.
TEST(tokenizer_schemes, metaspace_marks_what_stands_for_the_first_character) {
  const std::vector<std::string> tokens{"_", "a", "b", "\u0301", "\u0323", "i", "\u0307", "\u00e1", "\u00c3", "\u00a1"};
  nlohmann::json model{{"type", "BPE"}, {"merges", nlohmann::json::array()}};
  for (std::size_t i = 0; i < tokens.size(); ++i) model["vocab"][tokens[i]] = i;
  for (const auto& line : test::json_data("metaspace.json")) {
    const tokenizer t({{"normalizer", {{"type", "Sequence"}, {"normalizers", line[0]}}},
                       {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", line[1]}}},
                       {"model", model}},
                      {});
    std::string marked;
    for (const auto id : t.encode(line[2].get<std::string>(), no_limit)) marked += tokens[static_cast<std::size_t>(id)];
    EXPECT_EQ(marked, line[3]) << line;
  }
}

/// A python with the package tokenizers: $QKGEOM_PYTHON, the one that tests/run.sh makes, or the one on the path;
/// empty: there is none.
std::string python_with_tokenizers() {
  const char* const chosen = std::getenv("QKGEOM_PYTHON");
  for (const std::string& python :
       {std::string(chosen ? chosen : ""), std::string(QKGEOM_TEST_DATA) + "/../../build/python/bin/python",
        std::string("python3")})
    if (!python.empty() && std::system(("'" + python + "' -c 'import tokenizers' > /dev/null 2>&1").c_str()) == 0)
      return python;
  return "";
}

TEST(tokenizer_schemes, random_tokenizers_and_texts_equal_the_library_s) {
  const std::string python = python_with_tokenizers();
  if (python.empty())
    GTEST_SKIP() << "no python3 with the package tokenizers is here to compare random tokenizers with; tests/run.sh "
                    "makes one, QKGEOM_PYTHON names another";
  const std::string script = std::string(QKGEOM_TEST_DATA) + "/../capture/text/fuzz_tokenizers.py";
  const test::scratch_folder scratch;
  const std::string output = (scratch / "lines").string();
  ASSERT_EQ(std::system(("'" + python + "' '" + script + "' 1 150 > '" + output + "' 2> /dev/null").c_str()), 0);
  std::ifstream lines(output);
  std::size_t compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto one = nlohmann::json::parse(line);
    const tokenizer t(one["file"], {});
    for (std::size_t i = 0; i < one["texts"].size(); ++i) {
      if (one["ids"][i].is_null()) continue;  // the library itself gave up
      ASSERT_EQ(t.encode(one["texts"][i].get<std::string>(), no_limit), one["ids"][i].get<ids>())
          << "tokenizer " << one["number"] << ", text " << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000u);
}

}  // namespace
}  // namespace qkgeom
