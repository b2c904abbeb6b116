// SPDX-License-Identifier: MIT
#include "examples/common/table.hpp"

#include "examples/common/labels.hpp"
#include "examples/report/page.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::examples {
namespace {

TEST(Numbers, HaveNoNegativeZeroAndAMarkForNone) {
  EXPECT_EQ(fixed(-0.001), "0.00");
  EXPECT_EQ(fixed(-0.006), "-0.01");
  EXPECT_EQ(fixed(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(signed_fixed(0.5), "+0.50");
  EXPECT_EQ(signed_fixed(-0.5, 1), "-0.5");
  EXPECT_EQ(signed_fixed(0.0), "0.00");
  EXPECT_EQ(signed_fixed(std::numeric_limits<double>::infinity()), "-");
}

TEST(Numbers, KeepTheirSignificantDigits) {
  EXPECT_EQ(significant(0), "0");
  EXPECT_EQ(significant(0.00012345), "0.000123");
  EXPECT_EQ(significant(-4.5678), "-4.57");
  EXPECT_EQ(significant(78912), "78912");
  EXPECT_EQ(significant(1.5e-9), "1.50e-09");
  EXPECT_EQ(percent(0.426), "43 %");
  EXPECT_EQ(grouped(1234567), "1 234 567");
  EXPECT_EQ(grouped(-123456), "-123 456");
  EXPECT_EQ(grouped(999), "999");
}

TEST(Table, AlignsByWhatIsSeenNotByBytes) {
  table t({{"name", table::align::left}, {"value"}});
  t.row({"α", "1.5"});
  t.rule();
  t.row({"plain", "-10.25"});
  EXPECT_EQ(t.str(),
            "  name    value\n"
            "  ─────────────\n"
            "  α         1.5\n"
            "  ─────────────\n"
            "  plain  -10.25\n");
}

TEST(Table, FillsShortRowsAndRefusesLongOnes) {
  table t({{"a", table::align::left}, {"b"}});
  t.row({"x"});
  EXPECT_EQ(t.str(), "  a  b\n  ────\n  x\n");
  EXPECT_THROW(t.row({"1", "2", "3"}), error);
}

TEST(Html, TakesAnyBytesAsText) {
  EXPECT_EQ(html_text("<b a='1' c=\"2\">&amp;</b>"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;&lt;/b&gt;");
  EXPECT_EQ(html_text("é → 日 𝛼"), "é → 日 𝛼");
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(html_text(std::string("a\0b\x1b\x7f\r", 6)), "a" + mark + "b" + mark + mark + mark);
  // A lone byte, a cut character, overlong forms, a surrogate, a number above U+10FFFF.
  EXPECT_EQ(html_text("\xff<\xc3"), mark + "&lt;" + mark);
  EXPECT_EQ(html_text("\xc0\xbc"), mark + mark);
  EXPECT_EQ(html_text("\xe0\x80\xbc"), mark + mark + mark);
  EXPECT_EQ(html_text("\xed\xa0\x80"), mark + mark + mark);
  EXPECT_EQ(html_text("\xf4\x90\x80\x80"), mark + mark + mark + mark);
  EXPECT_EQ(html_words("1 234 567 of 12 345, 3 4567 <"), "1\u00a0234\u00a0567 of 12\u00a0345, 3 4567 &lt;");
}

TEST(Html, FiguresOfOnePageShareNoId) {
  const std::string svg =
      "<?xml version=\"1.0\"?>\n<svg width=\"7\" xmlns=\"http://www.w3.org/2000/svg\" "
      "xmlns:xlink=\"x\">\n<title>Gnuplot</title>"
      "<!-- note --><defs><circle id='dot' r='1'/></defs><g id=\"plot\" filter = 'url(#box)'><title>plot</title>"
      "<use xlink:href='#dot' x='2'/></g><text>id=\"dot\" &lt;b> ]]></text></svg>\n";
  EXPECT_EQ(inline_svg(svg, "a-", " role=\"img\""),
            "<svg role=\"img\" width=\"7\">\n<defs><circle id='a-dot' r='1'/></defs>"
            "<g id=\"a-plot\" filter='url(#a-box)'><use href='#a-dot' x='2'/></g>"
            "<text>id=\"dot\" &lt;b&gt; ]]&gt;</text></svg>");
}

TEST(Html, FiguresHoldOnlyDrawings) {
  for (const std::string inside :
       {"<script>x</script>", "<g onload='x'/>", "<use href='other.svg#a'/>", "<image href='#a'/>",
        "<g fill='url(x)'/>", "<a href='#a'/>", "<g id/>", "<g id=a/>", "<g id='a", "<g", "<!-- a", "<![CDATA[ a ]]>"})
    EXPECT_THROW(inline_svg("<svg>" + inside + "</svg>", "a-", ""), qkgeom::error) << inside;
  EXPECT_THROW(inline_svg("no figure", "a-", ""), qkgeom::error);
}

TEST(Html, TablesKeepGroupsRulesAndDigits) {
  table t({{"model", table::align::left}, {""}, {"<x>"}});
  t.row({"joint", "a", "1.0005"});
  t.row({"", "b", "1.001 "});
  t.rule();
  t.row({"none & all", "c", "2"});
  page_printer page;
  page.heading("Some");
  page.line("  about 10 000 heads\n");
  page.print(t);
  ASSERT_EQ(page.sections().size(), 1u);
  EXPECT_EQ(page.sections()[0].heading, "Some");
  EXPECT_EQ(
      page.sections()[0].body,
      "<p>about 10\u00a0000 heads</p>\n"
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Some\">\n<table>\n<thead>\n"
      "<tr><th scope=\"col\" class=\"words\">model</th><td></td><th scope=\"col\">&lt;x&gt;</th></tr>\n</thead>\n"
      "<tbody>\n<tr><th class=\"words\" scope=\"rowgroup\" rowspan=\"2\">joint</th><td>a</td><td>1.0005</td></tr>\n"
      "<tr><td>b</td><td>1.001\u2007</td></tr>\n</tbody>\n<tbody>\n"
      "<tr><th class=\"words\" scope=\"row\">none &amp; "
      "all</th><td>c</td><td>2</td></tr>\n</tbody>\n</table>\n</div>\n");
}

TEST(Target, IsJudgedByTwoStandardErrors) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judge({0.07, 0.0136, 11}), verdict::met);
  EXPECT_EQ(judge({0.07, 0.0137, 11}), verdict::open);
  EXPECT_EQ(judge({0.13, 0.0136, 11}), verdict::not_met);
  EXPECT_EQ(judge({0.13, 0.0137, 11}), verdict::open);
  EXPECT_EQ(judge({-0.02, 0.027, 2}), verdict::met);
  EXPECT_EQ(judge({-0.02, 0.028, 2}), verdict::open);
  EXPECT_EQ(judge({0.10, 0, 11}), verdict::open);
  EXPECT_EQ(judge({0.05, unknown}), verdict::open);
  EXPECT_EQ(judge({unknown, unknown}), verdict::open);
  EXPECT_EQ(target_statement({0.07, 0.01, 11}, 131072),
            "Met: AP_drop is 0.070 ± 0.010 over 131 072 tokens, and its 95 % interval lies below 0.10.");
  EXPECT_EQ(target_statement({0.161, 0.002, 11}, 8192),
            "Not met: AP_drop is 0.161 ± 0.002 over 8 192 tokens, and its 95 % interval lies above 0.10.");
  EXPECT_EQ(target_statement({0.099, 0.0004, 11}, 512),
            "Met: AP_drop is 0.099 ± 0.0004 over 512 tokens, and its 95 % interval lies below 0.10.");
  EXPECT_EQ(target_statement({0.11, 0.01, 11}, 512),
            "Cannot be said: AP_drop is 0.110 ± 0.010 over 512 tokens, and its 95 % interval holds 0.10.");
  EXPECT_THAT(target_statement({0.05, unknown}, 512),
              testing::StartsWith("Cannot be said: AP_drop is 0.050 over 512 tokens"));
  EXPECT_THAT(target_statement({unknown, unknown}, 512), testing::StartsWith("Cannot be said: no query bucket"));
}

TEST(Target, PlacesAModelAmongOthers) {
  const test::scratch_folder folder;
  const auto file = folder / "others.csv";
  test::put(file, "score,name,drop\n40,a,0.2\n,b,0.3\n20,c,0.05\n30,\"d, e\",0.1\n");
  const auto models = read_scored_models(file, {"name", "drop", "score"});
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[2].name, "d, e");
  EXPECT_EQ(models[2].drop, 0.1);
  EXPECT_EQ(median_score(models), 30);
  EXPECT_THROW(read_scored_models(file, {"model", "drop", "score"}), qkgeom::error);
  EXPECT_THROW(read_scored_models(file, {"name", "drop"}), qkgeom::error);
  using testing::HasSubstr;
  EXPECT_THAT(quadrant_of({0.05, 0.01, 11}, 30, 30).statement, HasSubstr("keeps its context"));
  EXPECT_THAT(quadrant_of({0.05, 0.01, 11}, 29, 30).statement, HasSubstr("capability-limited"));
  EXPECT_THAT(quadrant_of({0.20, 0.01, 11}, 31, 30).statement, HasSubstr("context-limited"));
  EXPECT_THAT(quadrant_of({0.20, 0.01, 11}, 29, 30).statement, HasSubstr("limited in both"));
  EXPECT_THAT(quadrant_of({0.11, 0.01, 11}, 29, 30).statement, HasSubstr("cannot be said"));
}

TEST(Numbers, ErrorsHaveMoreDecimalsWhereTheyWouldReadAsNothing) {
  EXPECT_EQ(decimals_of_error(0.0005, 3), 3);
  EXPECT_EQ(decimals_of_error(0.0004, 3), 4);
  EXPECT_EQ(decimals_of_error(0.00001, 3), 4);
  EXPECT_EQ(decimals_of_error(0.0004, 2, 2), 4);
  EXPECT_EQ(decimals_of_error(0, 3), 3);
}

TEST(Labels, FileNamesKeepLettersOfAnyScript) {
  EXPECT_EQ(file_name_of("a/b c=1_\u65e5\u672c\xff"), "a_b_c=1_\u65e5\u672c_");
  const std::string longest(120, 'x'), character = std::string(110, 'x') + "\u65e5" + longest;
  EXPECT_EQ(file_name_of(longest), longest);
  EXPECT_EQ(file_name_of(longest + "1").size(), 120u);
  EXPECT_EQ(file_name_of(longest + "1").substr(0, 112), std::string(111, 'x') + "-");
  EXPECT_NE(file_name_of(longest + "1"), file_name_of(longest + "2"));
  EXPECT_EQ(file_name_of(character).substr(0, 111), std::string(110, 'x') + "-");
  EXPECT_EQ(file_name_of("\xed\xa0\x80\xc0\x80"), "_____");  // a surrogate and an overlong form
}

}  // namespace
}  // namespace qkgeom::examples
