// SPDX-License-Identifier: MIT
// Small tokenizers of every scheme against the `tokenizers` library: stored ids (tests/data/make_tokenizers.py), and
// random tokenizers and texts where the library is installed (fuzz_tokenizers.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "capture/job/documents.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/json.hpp"
#include "tests/capture/text/token_ids.hpp"

namespace qkgeom {
namespace {

using test::fnv1a;
using test::ids;
using test::no_limit;

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
  for (const std::string name : {"tekken", "mistral", "gemma3"}) {
    const auto t = tokenizer::load(tokenizers + name + ".json");
    for (const std::string part : {"a", " ", "A", "ab"}) {
      const auto work = [&](std::size_t bytes) {
        const std::uint64_t before = t.lookups();
        t.encode(repeated(part, bytes), no_limit);
        return static_cast<double>(t.lookups() - before);
      };
      const double small = work(100'000), large = work(1'000'000);
      EXPECT_LT(large, 11 * small + 1e4) << name << " '" << part << "'";
      EXPECT_LT(large, 4.0 * 1'000'000) << name << " '" << part << "'";
    }
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
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen(("'" + python + "' '" + script + "' 1 150 2> /dev/null").c_str(), "r"), pclose);
  ASSERT_TRUE(pipe);
  std::string output;
  char buffer[1 << 16];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) output.append(buffer, n);
  std::size_t compared = 0;
  for (std::size_t from = 0, end = 0; (end = output.find('\n', from)) != output.npos; from = end + 1) {
    const auto one = nlohmann::json::parse(output.substr(from, end - from));
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
