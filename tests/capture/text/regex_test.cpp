// SPDX-License-Identifier: MIT
#include "capture/text/regex.hpp"

#include "tests/common/data_files.hpp"

namespace qkgeom {
namespace {

using ::testing::HasSubstr;

/// The matches, each in <>.
std::string matches(std::string_view pattern, std::string_view text) {
  std::string found;
  regex(pattern).for_each_match(text, [&](std::size_t begin, std::size_t end) {
    found += '<' + std::string(text.substr(begin, end - begin)) + '>';
    return true;
  });
  return found;
}

/// regexes.json has lines of a pattern, a text and its matches.
TEST(regex, matches_as_oniguruma_does) {
  for (const auto& line : test::json_data("regexes.json"))
    EXPECT_EQ(matches(line[0].get<std::string>(), line[1].get<std::string>()), line[2].get<std::string>()) << line;
}

TEST(regex, classes_have_the_characters_of_unicode_16) {
  EXPECT_EQ(matches(R"(\p{L}|\p{Mc}|\p{Nd})", "\u1c89 \U00010d40 \u0897 \U0001171e \u0295"),
            "<\u1c89><\U00010d40><\U0001171e><\u0295>");
  EXPECT_EQ(matches(R"(\p{Ll}|\p{Mn}|\p{Latin}|\p{Han})", "\u0295 \u0897 \ua7cb \U0002ebf0 \U000323b0"),
            "<\u0295><\u0897><\ua7cb><\U0002ebf0>");  // the last one is of Unicode 17
  EXPECT_EQ(matches(R"(\p{L}|\p{So})", "\U000323b0\U0001ccfa"), "");
}

TEST(regex, what_icu_reads_differently_is_refused_by_name) {
  test::expect_refusals("regexes", [](const nlohmann::json& pattern) { regex{pattern.get<std::string>()}; });
  for (const auto& pattern : {std::string(20'000, 'a'), "\x1b(" + std::string(1000, 'x')}) {
    const std::string text = test::message_of([&] { regex{pattern}; });
    EXPECT_THAT(text, HasSubstr(pattern[0] == 'a' ? "more than 16384 bytes" : "'?(xxx"));
    EXPECT_LT(text.size(), 500u) << "patterns are shown cut";
  }
}

TEST(regex, a_pattern_that_tries_without_end_is_stopped) {
  const std::string pattern = "(?:a+)+[bc]|[\\s\\S]";
  EXPECT_EQ(matches(pattern, "aaaab"), "<aaaab>");
  EXPECT_QKGEOM_ERROR("it takes too many steps", matches(pattern, std::string(40, 'a')));
}

TEST(regex, a_text_may_be_one_word) {
  const std::string spaces(30'000'000, ' '), letters(1'000'000, 'x');
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+[b]", spaces + "a").size(), spaces.size() - 1 + 2);
  EXPECT_EQ(matches("(?:(?=\\p{L})[^a-z])*(?:(?=\\p{L})[^A-Z])+", letters).size(), letters.size() + 2);
}

}  // namespace
}  // namespace qkgeom
