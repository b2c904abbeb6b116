// SPDX-License-Identifier: MIT
#include "capture/text/regex.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/common/refusal.hpp"

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

TEST(regex, matches_as_oniguruma_does) {
  struct example {
    std::string_view pattern, text, found;
  };
  for (const auto& [pattern, text, found] :
       std::vector<example>{{R"(\p{Z}+)", "a  b", "<  >"},
                            {R"([^\s\p{Z}])", " a\u0085\tb", "<a><b>"},
                            {R"(\P{Z}\\s)", R"(\\s a\s)", R"(<\\s><a\s>)"},
                            {R"([\P{L}x])", "ax-", "<x><->"},
                            {R"(\p{^L}|\P{^Lu})", "aB1", "<B><1>"},
                            {R"(\S+)", "\u180e", "<\u180e>"},  // no space since Unicode 6.3
                            {R"(\S)", " \u0085\u2028", ""},
                            {R"(a{,2}\v{x\u00e9)", "aaa\v{x\u00e9", "<aa\v{x\u00e9>"},
                            {R"(x{a|]}|[]a]+)", "x{a]}aa]", "<x{a><]}><aa]>"},
                            {R"([a-]+)", "-a|a-", "<-a><a->"},
                            {R"([&-\-\[\x5d]+)", "[&]-", "<[&]->"},
                            {R"((?i)k|[^s])", "K\u212a\u017fs", "<K><\u212a>"},
                            {R"((?i:'s)|s)", "'\u017f'Ss", "<'\u017f><'S><s>"},
                            {R"((?i:'s|'re|'d)?x|(?i:'s|t))", "'Rex'Dx'dxx'stT", "<'Rex><'Dx><'dx><x><'s><t><T>"},
                            {R"((?i)\p{Lu}(?-i:b)|[\p{Lu}])", "AbABab", "<Ab><A><B><a><b>"},
                            {R"((?i:st|\P{Lu})|A)", "\ufb06sTAa1", "<\ufb06><sT><A><a><1>"},
                            {R"(^a|a$)", "a\na\ra\u2028a", "<a><a><a>"},  // lines end with \n alone
                            {R"(.\Z)", "a\n", "<a>"},
                            {R"(.\z|.\Z)", "a\r", "<\r>"},
                            {R"(b*)", "abbc", "<><bb><>"},
                            {R"((?<=\u00e9)b)", "\u00e9b\U0001F600b", "<b>"},
                            {R"(\x{1F600}.|\x41)", "A\U0001F600\U0001F601A", "<A><\U0001F600\U0001F601><A>"}})
    EXPECT_EQ(matches(pattern, text), found) << pattern;
}

TEST(regex, classes_have_the_characters_of_unicode_16) {
  EXPECT_EQ(matches(R"(\p{L}|\p{Mc}|\p{Nd})", "\u1c89 \U00010d40 \u0897 \U0001171e \u0295"),
            "<\u1c89><\U00010d40><\U0001171e><\u0295>");
  EXPECT_EQ(matches(R"(\p{Ll}|\p{Mn}|\p{Latin}|\p{Han})", "\u0295 \u0897 \ua7cb \U0002ebf0 \U000323b0"),
            "<\u0295><\u0897><\ua7cb><\U0002ebf0>");  // the last one is of Unicode 17
  EXPECT_EQ(matches(R"(\p{L}|\p{So})", "\U000323b0\U0001ccfa"), "");
}

TEST(regex, what_icu_reads_differently_is_refused_by_name) {
  const std::string far = "\x1b(" + std::string(1000, 'x');
  for (const auto& [pattern, words] :
       std::vector<std::pair<std::string, std::string>>{{R"(\w+)", "\\w at byte 0"},
                                                        {R"(a\b)", "\\b at byte 1"},
                                                        {R"([\z])", "\\z at byte 1"},
                                                        {R"(\p{N}{1,3}+)", "repetition"},
                                                        {R"([a-z&&[^b]])", "intersection"},
                                                        {R"([[a]])", "class within a class"},
                                                        {R"([b-a])", "descends"},
                                                        {R"([a-\d])", "ends with a class"},
                                                        {R"([a)", "[ without ]"},
                                                        {R"(\p{Klingon})", "Klingon"},
                                                        {R"(\p{C})", "property 'C'"},
                                                        {R"(a(?m)b)", "group"},
                                                        {R"(\xE9)", "byte written"},
                                                        {R"(\x{110000})", "without a number"},
                                                        {R"(\u12)", "without a number"},
                                                        {R"(a\)", "a backslash at its end"},
                                                        {"(unclosed", "does not compile"},
                                                        {std::string(20'000, 'a'), "more than 16384 bytes"},
                                                        {far, "'?(xxx"}}) {
    const std::string text = test::message_of([&] { regex{pattern}; });
    EXPECT_THAT(text, HasSubstr(words));
    EXPECT_LT(text.size(), 500u) << "patterns are shown cut";
  }
}

TEST(regex, a_pattern_that_tries_without_end_is_stopped) {
  const std::string pattern = "(?:a+)+[bc]|[\\s\\S]";
  EXPECT_EQ(matches(pattern, "aaaab"), "<aaaab>");
  EXPECT_THAT(test::message_of([&] { matches(pattern, std::string(40, 'a')); }), HasSubstr("it takes too many steps"));
}

TEST(regex, a_text_may_be_one_word) {
  const std::string spaces(30'000'000, ' '), letters(1'000'000, 'x');
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+[b]", spaces + "a").size(), spaces.size() - 1 + 2);
  EXPECT_EQ(matches("(?:(?=\\p{L})[^a-z])*(?:(?=\\p{L})[^A-Z])+", letters).size(), letters.size() + 2);
}

}  // namespace
}  // namespace qkgeom
