// SPDX-License-Identifier: MIT
#include "capture/text/regex.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/refusal.hpp"

namespace qkgeom {
namespace {

using ::testing::HasSubstr;

TEST(regex, classes_and_spaces_are_rewritten) {
  EXPECT_EQ(pcre2_pattern(R"(\p{Z}+)"), R"([\p{Z}]+)");
  EXPECT_EQ(pcre2_pattern(R"([^\s\p{Z}])"), R"([^\x09-\x0d\x{85}\p{Z}\p{Z}])");
  EXPECT_EQ(pcre2_pattern(R"(\P{Z}\\s)"), R"([^\p{Z}]\\s)");
  EXPECT_THROW(pcre2_pattern(R"([\P{L}])"), error);
  EXPECT_THROW(regex("(unclosed"), error);
  regex::span m;
  EXPECT_TRUE(regex(R"(\S+)").find("\xe1\xa0\x8e", 0, &m));  // U+180E is no space
  EXPECT_FALSE(regex(R"(\S)").find(" \xc2\x85\xe2\x80\xa8", 0, &m));
}

TEST(regex, what_the_dialects_read_differently_is_refused_by_name) {
  const auto refusal = [](std::string_view pattern) { return test::message_of([&] { pcre2_pattern(pattern); }); };
  EXPECT_THAT(refusal(R"(\w+)"), HasSubstr("\\w at byte 0"));
  EXPECT_THAT(refusal(R"(a\b)"), HasSubstr("\\b at byte 1"));
  EXPECT_THAT(refusal(R"(\p{N}{1,3}+)"), HasSubstr("repetition"));
  EXPECT_THAT(refusal(R"([a-z&&[^b]])"), HasSubstr("intersection"));
  EXPECT_THAT(refusal(R"([[a]])"), HasSubstr("class within a class"));
  EXPECT_THAT(refusal(R"(\p{Klingon})"), HasSubstr("Klingon"));
  EXPECT_THAT(refusal(R"(a(?m)b)"), HasSubstr("group"));
  EXPECT_THAT(refusal(R"(\xE9)"), HasSubstr("byte written"));
  EXPECT_EQ(pcre2_pattern(R"(a{,2}\v{x\u00e9)"), R"(a{0,2}\x0b\{x\x{00e9})");
}

TEST(regex, a_pattern_that_tries_without_end_is_stopped) {
  const regex expression("(?:a+)+[bc]|[\\s\\S]");
  regex::span m;
  EXPECT_TRUE(expression.find("aaaab", 0, &m));
  EXPECT_THAT(test::message_of([&] { expression.find(std::string(28, 'a'), 0, &m); }),
              HasSubstr("match limit exceeded"));
  EXPECT_TRUE(regex("\\s+(?!\\S)|\\s+[b]").find(std::string(30'000'000, ' ') + "a", 0, &m)) << "one long word";
}

TEST(regex, errors_show_the_pattern_cut_and_without_controls) {
  const std::string text = test::message_of([] { regex("\x1b(" + std::string(1000, 'x')); });
  EXPECT_THAT(text, HasSubstr("'?(xxx"));
  EXPECT_LT(text.size(), 500u);
}

}  // namespace
}  // namespace qkgeom
