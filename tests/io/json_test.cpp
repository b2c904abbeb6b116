// SPDX-License-Identifier: MIT
#include "qkgeom/io/json.hpp"

#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Json, ReadsTypedValues) {
  const json document =
      parse_json(R"({"a":{"b":[1,2.5,-3]},"s":"text","t":true,"n":null,"u":18446744073709551615})", "x");
  const json_value v(document, "x");
  EXPECT_THAT(v["a"]["b"].numbers(), ElementsAre(1, 2.5, -3));
  EXPECT_EQ(v["s"].string(), "text");
  EXPECT_TRUE(v["t"].boolean());
  EXPECT_TRUE(v.has("s"));
  EXPECT_FALSE(v.has("n")) << "null counts as absent";
  EXPECT_FALSE(v["s"].has("s"));
  EXPECT_EQ(v["u"].unsigned_integer(), 18446744073709551615u);
  EXPECT_EQ(v["a"]["b"].entries()[2].integer(), -3);
}

TEST(Json, ReadsFieldsThatMayBeAbsent) {
  const json document = parse_json(R"({"a":{"b":2},"s":"text","t":true,"n":null,"x":-1.5})", "x.json");
  const json_value v(document, "x.json");
  EXPECT_EQ(v["a"].integer("b", 0, 9), 2);
  EXPECT_EQ(v.string("s"), "text");
  EXPECT_EQ(v.boolean("t"), true);
  EXPECT_EQ(v.number("x"), -1.5);
  EXPECT_EQ(v.number("n"), std::nullopt);
  EXPECT_FALSE(v.object("none"));
  EXPECT_EQ(v.find("n"), nullptr);
  EXPECT_EQ(v["a"].where(), "x.json: a");
  EXPECT_QKGEOM_ERROR("x.json: a.b must be an integer from 3 to 9, not 2", v["a"].integer("b", 3, 9));
  EXPECT_QKGEOM_ERROR("x.json: x must be a positive number, not -1.5", v.positive("x"));
  EXPECT_QKGEOM_ERROR("x.json: s must be an object, not \"text\"", v.object("s"));
  EXPECT_QKGEOM_ERROR("x.json: s must be an object, not \"text\"", v["s"].number("b"));
}

TEST(Json, NamesTheFieldThatIsWrong) {
  const json document = parse_json(R"({"a":{"b":[1,2.5,-3]},"s":"text","n":null,"u":18446744073709551615})", "x.json");
  const json_value v(document, "x.json");
  EXPECT_QKGEOM_ERROR("x.json: the field a.c is missing", v["a"]["c"]);
  EXPECT_QKGEOM_ERROR("x.json: a.b must be an object, not a list", v["a"]["b"]["c"]);
  EXPECT_QKGEOM_ERROR("x.json: a.b[1] must be an integer from 0 to 9, not 2.5", v["a"]["b"].integers(0, 9));
  EXPECT_QKGEOM_ERROR("x.json: a.b[2] must be an integer >= 0, not -3", v["a"]["b"].entries()[2].integer(0));
  EXPECT_QKGEOM_ERROR("x.json: s must be an integer, not \"text\"", v["s"].integer());
  EXPECT_QKGEOM_ERROR("x.json: u must be an integer, not 18446744073709551615", v["u"].integer());
  EXPECT_QKGEOM_ERROR("x.json: s must be a number", v["s"].number());
  EXPECT_QKGEOM_ERROR("x.json: s must be true or false", v["s"].boolean());
  EXPECT_QKGEOM_ERROR("x.json: n must be a string, not null", v["n"].string());
  EXPECT_QKGEOM_ERROR("x.json: a must be a list, not an object", v["a"].entries());
  EXPECT_QKGEOM_ERROR("x.json: the document must be a string", v.string());
}

TEST(Json, RefusesWhatIsNoJson) {
  EXPECT_QKGEOM_ERROR("x: not valid JSON at byte", parse_json("{", "x"));
  EXPECT_QKGEOM_ERROR("x: not valid JSON at byte", parse_json("", "x"));
  EXPECT_QKGEOM_ERROR("x: not valid JSON at byte", parse_json("\"\xff\"", "x"));
  EXPECT_QKGEOM_ERROR("x: not valid JSON", parse_json("1e999", "x"));
  EXPECT_QKGEOM_ERROR("x: the JSON is nested deeper than 64 levels", parse_json(std::string(1000000, '['), "x"));
  EXPECT_QKGEOM_ERROR("x: the JSON names the field \"a\" twice", parse_json(R"([{"b":{"a":1},"a":1,"a":2}])", "x"));
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":{"a":2}}])", "x").size(), 2u);
}

TEST(Json, ReadsNumbersThatPythonWritesAsWordsButTakesThemForNone) {
  const json document =
      parse_json(R"({"unread": [NaN, -Infinity, 1], "text": "NaN, \"Infinity\" \\", "theta": Infinity})", "x");
  EXPECT_EQ(document["text"], "NaN, \"Infinity\" \\");
  EXPECT_EQ(document["unread"][2], 1);
  EXPECT_QKGEOM_ERROR("x: theta must be a number", json_value(document, "x")["theta"].number());
  EXPECT_QKGEOM_ERROR("x: not valid JSON", parse_json("[NaNa]", "x"));
  EXPECT_QKGEOM_ERROR("x: not valid JSON", parse_json("[-NaN]", "x"));
}

TEST(Json, RefusesWhatFollowsANul) {
  using namespace std::string_literals;
  EXPECT_QKGEOM_ERROR("x: not valid JSON at byte 11, which is NUL", parse_json("{\"a\":\"b\"} \0{\"c\":1}"s, "x"));
  EXPECT_QKGEOM_ERROR("x: not valid JSON at byte 3, which is NUL", parse_json("[]\0"s, "x"));
}

TEST(Json, BoundsValuesAndNames) {
  std::string many = "[0";
  for (std::size_t i = 2; i < max_json_values; ++i) many += ",0";
  EXPECT_EQ(parse_json(many + ']', "x").size(), max_json_values - 1) << "the list is a value too";
  EXPECT_QKGEOM_ERROR("x: the JSON has more than 4000000 values", parse_json(many + ",{}]", "x"));
  const json document = {{"short", std::string(max_name_bytes, 'n')}, {"long", std::string(max_name_bytes + 1, 'n')}};
  const json_value v(document, "x");
  EXPECT_EQ(v["short"].name().size(), max_name_bytes);
  EXPECT_QKGEOM_ERROR("x: long must be a string of at most 4096 bytes, not \"nnn", v["long"].name());
}

TEST(Json, ReadsFiles) {
  const test::scratch_folder folder;
  test::put(folder / "a.json", "[1]");
  EXPECT_EQ(read_json(folder / "a.json"), json({1}));
  EXPECT_QKGEOM_ERROR("a.json is larger than the 2 bytes", read_json(folder / "a.json", 2));
  test::put(folder / "a.json", "[1");
  EXPECT_QKGEOM_ERROR("a.json: not valid JSON at byte 3", read_json(folder / "a.json"));
}

}  // namespace
}  // namespace qkgeom
