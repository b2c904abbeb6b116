// SPDX-License-Identifier: MIT
// The expressions of examples/thesis/data/claims.csv: each operator, each format, each error.
#include "examples/thesis/published.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom::examples::thesis;
const std::filesystem::path published_tables = std::filesystem::path(QKGEOM_EXAMPLE_DATA).parent_path() / "thesis/data";

/// The published tables and a small one, t.
published with_small_table() {
  named_table t{.name = "t", .rows = {"one", "two", "two"}};
  t.columns["x"].numbers = {1, 3, 2};
  t.columns["y"].printed = {{"~2*"}, {}, {"5%"}};
  t.columns["colour"] = {.is_text = true, .printed = {{"red"}, {"rose"}, {"blue"}}};
  t.columns["p"] = {.entries = {"0-1K", "1K-2K", "2K-4K"},
                    .printed = {{"4", "6", "8"}, {"5", "5", "2"}, {"9", "1", ""}}};
  t.columns["bad"] = {.file = "bad.csv", .printed = {{"tall"}, {"1"}, {"2"}}};
  return published(published_tables).with(std::move(t));
}

TEST(thesis_expression, gives_what_tables_hold) {
  const auto p = with_small_table();
  const std::pair<const char*, const char*> cases[] = {
      {"of {t.x}", "of 1, 3, 2"},
      {"{t.y}", "2, 5"},
      {"{t.colour}", "red, rose, blue"},
      {"{t[one].x}", "1"},
      {"{t[two].x}", "3, 2"},
      {"{t[colour = 'r*' and x > 1].name}", "two"},
      {"{t[colour != 'blue'].x}", "1, 3"},
      {"{t[x > low(x)].x}", "3, 2"},
      {"{t[x > 3].x}", "none"},
      {"{t.p[1K-2K]}", "6, 5, 1"},
      {"{t.(x / 2 - -1 * (x + 1))}", "2.5, 5.5, 4"},
      {"{t.x > 2} {t.x >= 2} {t.x < 2} {t.x <= 2} {t.x = 2} {t.x != 2}",
       "0, 1, 0 0, 1, 1 1, 0, 0 1, 0, 1 0, 0, 1 1, 1, 0"},
      {"{t.y > 2} {t.(y > 2 and x > 1)} {t.(x > 2 or x < 2)}", "0, 1 0, 1 1, 1, 0"},
      {"{1 ~ 1.001} {1 ~ 1.002}", "1 0"},
      {"{abs(-2)} {log(1)} {mean(t.y)} {sum(t.x)} {low(t.x)} {high(t.x)} {spread(t.x)} {count(t)}",
       "2 0 3.5 6 1 3 0.5 3"},
      {"{high(t.p)}", "9, 6, 8"},
      {"{ascending(t.x)} {by_name(t.x)} {previous(t.x)} {previous(t.colour)}", "1, 2, 3 1, 2.5 1, 3 , red, rose"},
      {"{average(t.p)} {rise(t.p)} {slope(t.p)} {straightness(t.p)}", "6, 4 2, 0 2, -1.5 1, 0.75"},
      {"{ends(t.p):K} {recovery(llama_31_8b.deciles):3}", "1K, 2K, 4K 0.038"},
      {"{pearson(t.x, t.x)} {spearman(t.x, -t.x)} {spearman_p(t.x, t.x):2}", "1 -1 0.33"},
      {"{falling(t, t.x).x}", "3, 2, 1"},
      {"{llama_31_8b.deciles}", "0.445 to 0.654 (10)"},
      {"{1 / 3} {1 / 3:2} {1 / 3:+2} {1 / 3:s2} {0.5:t2} {1 / 3:%} {8192:K} {0.001:p} {0.01:p}",
       "0.3333 0.33 +0.33 0.33 0.5 33 % 8K 0.00100 0.010"},
      {"{t.x:at name 1}", "at one 1.0, at two 3.0, at two 2.0"},
      {"{t[one].p:name 0}", "0-1K 4, 1K-2K 6, 2K-4K 8"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(p.words(text), expected) << text;
  EXPECT_EQ(p.words_by_row("{name}: {y:1}", "t"), (std::vector<std::string>{"one: 2.0", "two: ", "two: 5.0"}));
}

TEST(thesis_expression, says_what_is_wrong) {
  const auto p = with_small_table();
  const std::pair<const char*, const char*> cases[] = {
      {"{nothing}", "in \"nothing\": there is no table or definition nothing"},
      {"{t.z}", "the table t has no column z"},
      {"{t.(x + z)}", "the table t has no column z"},
      {"{t[four].x}", "the table t has no row four"},
      {"{t[1 = 1].x}", "is no condition on rows"},
      {"{t.p[4K-8K]}", "a profile has no entry 4K-8K"},
      {"{t.bad}", "bad.csv: expected a number, not \"tall\""},
      {"{middle(t.x)}", "there is no operator middle"},
      {"{mean(t)}", "mean takes numbers, not a table"},
      {"{count(t.x)}", "count takes a table, not numbers"},
      {"{abs(t.colour)}", "abs takes numbers, not texts"},
      {"{mean(t.x, t.x)}", "mean takes 1 values, not 2"},
      {"{mean(t[x > 9].x)}", "no row has a number"},
      {"{pearson(t.x, 1)}", "one column has 3 rows, the other 1"},
      {"{recovery(t.p[0-1K])}", "a recovery is of ten deciles"},
      {"{t.x + t[two].x}", "\"+\" of 3 and 2 rows"},
      {"{t.x + falling(t, t.x).x}", "two columns with different rows"},
      {"{t + 1}", "\"+\" is of columns, not of tables"},
      {"{t.colour + 1}", "is of two numbers or of two texts"},
      {"{t.colour < 'a'}", "\"<\" is not of texts"},
      {"{t.x > 1 and 1}", "\"and\" is of conditions"},
      {"{t.x.x}", "\".\" follows a table"},
      {"{(1 + 2}", "\")\" is missing"},
      {"{t[x = 1}", "\"]\" is missing"},
      {"{1 +}", "a name is missing"},
      {"{1 2}", "\"2\" is left over"},
      {"{'a}", "lacks its closing"},
      {"{t}", "a table has no text"},
      {"{1", "\"}\" is missing"},
      {"{1:q}", "there is no format q"},
  };
  for (const auto& [text, expected] : cases) EXPECT_QKGEOM_ERROR(expected, p.words(text)) << text;
  EXPECT_THROW(p.number("t.x"), qkgeom::error);
  EXPECT_THROW(p.words_by_row("{t.x} {t[two].x}"), qkgeom::error);
}

}  // namespace
