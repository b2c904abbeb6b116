// SPDX-License-Identifier: MIT
#include "qkgeom/io/safetensors.hpp"

#include "qkgeom/io/json.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put, test::raw_safetensors;
using testing::ElementsAre;
using testing::HasSubstr;

/// Header entry of one tensor.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + '}';
}

/// The sentence with which a file of this header and data is refused.
std::string refusal(const std::string& header, const std::string& data = "") {
  const test::scratch_folder folder;
  put(folder / "x.safetensors", raw_safetensors(header, data));
  const auto text = test::message_of([&] { safetensors_file{folder / "x.safetensors"}; });
  EXPECT_THAT(text, HasSubstr("x.safetensors: "));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_LT(text.size(), 500u);
  return text;
}

using Safetensors = test::in_scratch_folder;

TEST_F(Safetensors, RoundTrip) {
  const std::vector<float> f{1, 2, 3, 4, 5, 6};
  const std::vector<double> d{7, 8};
  const std::vector<bf16> b{bf16::round(1.5f)};
  const std::vector<std::byte> u(3, std::byte{9});
  const auto pieces = [&](const byte_sink& sink) {
    for (const double& x : d) sink(std::as_bytes(std::span(&x, 1)));
  };
  write_safetensors(folder / "a",
                    {{"u", "U8", {3}, u, {}},
                     tensor_of("f", {2, 3}, f.data()),
                     {"d", "F64", {2}, {}, pieces},
                     tensor_of("b", {1, 1, 1}, b.data()),
                     tensor_of("scalar", {}, f.data()),
                     tensor_of<float>("none", {0, 5}, nullptr)},
                    {{"key", "value \"quoted\""}});
  const safetensors_file file(folder / "a");
  EXPECT_EQ(file.metadata().at("key"), "value \"quoted\"");
  ASSERT_EQ(file.tensors().size(), 6u);
  EXPECT_EQ(file.tensors()[0].name, "d") << "descending element size";
  EXPECT_THAT(file.values<double>("d"), ElementsAre(7, 8));
  EXPECT_THAT(file.values<float>("f"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(file.values<float>("f").copied());
  EXPECT_EQ(static_cast<float>(file.values<bf16>("b")[0]), 1.5f);
  EXPECT_THAT(file.at("f").shape, ElementsAre(2, 3));
  EXPECT_TRUE(file.at("scalar").shape.empty());
  EXPECT_EQ(file.values<float>("none").size(), 0u);
  EXPECT_EQ(file.find("g"), nullptr);
  EXPECT_QKGEOM_ERROR("there is no tensor g", file.at("g"));
  EXPECT_QKGEOM_ERROR("tensor f must have dtype F64, not F32", file.values<double>("f"));
  std::uint64_t header = 0;
  std::memcpy(&header, get(folder / "a").data(), 8);
  EXPECT_EQ((header + 8) % 64, 0u) << "the data start at a multiple of 64 bytes";
}

TEST_F(Safetensors, TheSameInputGivesTheSameBytes) {
  const float x = 1;
  for (const auto* name : {"a", "b"})
    write_safetensors(folder / name, {tensor_of("x", {1}, &x)}, {{"b", "1"}, {"a", "2"}});
  EXPECT_EQ(get(folder / "a"), get(folder / "b"));
}

TEST_F(Safetensors, CopiesAMisalignedTensor) {
  const std::vector<float> f{1, 2};
  const std::string header = '{' + entry("c", "U8", "[1]", "[0,1]") + ',' + entry("f", "F32", "[2]", "[1,9]") + '}';
  std::string padded = header;
  padded.resize((header.size() + 7) / 8 * 8, ' ');
  put(folder / "a", raw_safetensors(padded, 'c' + std::string(reinterpret_cast<const char*>(f.data()), 8)));
  const safetensors_file file(folder / "a");
  auto values = file.values<float>("f");
  EXPECT_TRUE(values.copied());
  const auto moved = std::move(values);
  EXPECT_THAT(moved, ElementsAre(1, 2));
}

TEST_F(Safetensors, ReadsWhatPythonWrote) {
  const safetensors_file file(QKGEOM_TEST_DATA "/golden/short-bf16.safetensors");
  EXPECT_EQ(file.tensors().size(), 16u);
  EXPECT_THAT(file.at("layer.1.q").shape, ElementsAre(1550, 2, 32));
  EXPECT_EQ(file.at("layer.1.q").dtype, "BF16");
  EXPECT_EQ(file.metadata().count("qkgeom"), 1u);
}

TEST_F(Safetensors, EveryDtypeIsMeasured) {
  put(folder / "a", raw_safetensors('{' + entry("x", "F4", "[2,2]", "[0,2]") + ',' + entry("y", "U8", "[1]", "[2,3]") +
                                        ',' + entry("z", "F6_E2M3", "[4]", "[3,6]") + '}',
                                    "abcdef"));
  const safetensors_file file(folder / "a");
  EXPECT_EQ(file.at("x").bytes, 2u);
  EXPECT_EQ(file.at("z").bytes, 3u);
  EXPECT_QKGEOM_ERROR("tensor x must have dtype F32, not F4", file.values<float>("x"));
}

TEST_F(Safetensors, SkipsUnknownFields) {
  put(folder / "a",
      raw_safetensors(R"({"x":{"more":[1,{"dtype":null}],"dtype":"U8","shape":[1],"extra":-1.5,"data_offsets":[0,1]}})",
                      "a"));
  EXPECT_EQ(safetensors_file(folder / "a").at("x").bytes, 1u);
  const auto last = [&](const char* more) {
    put(folder / "a", raw_safetensors(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":)" +
                                          std::string(more) + "}," + entry("y", "U8", "[1]", "[1,2]") + '}',
                                      "ab"));
    const safetensors_file file(folder / "a");
    EXPECT_EQ(file.tensors().size(), 2u) << more;
    EXPECT_EQ(file.at("y").bytes, 1u) << more;
  };
  for (const char* more : {"1", "\"dtype\"", "null", "[]", "[[1],{}]", "{}", R"({"dtype":[]})"}) last(more);
}

TEST_F(Safetensors, RefusesWhatIsNoSafetensorsFile) {
  put(folder / "short", "abc");
  put(folder / "text", "This is a text file of some length.");
  put(folder / "huge", std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10));  // one byte more than 100 MB
  put(folder / "cut", std::string("\x10\0\0\0\0\0\0\0{}", 10));
  put(folder / "zero", std::string(8, '\0'));
  EXPECT_QKGEOM_ERROR("it has only 3 bytes", safetensors_file(folder / "short"));
  EXPECT_QKGEOM_ERROR("not a safetensors file", safetensors_file(folder / "text"));
  EXPECT_QKGEOM_ERROR("more than the 100000000 allowed", safetensors_file(folder / "huge"));
  EXPECT_QKGEOM_ERROR("cut short", safetensors_file(folder / "cut"));
  EXPECT_QKGEOM_ERROR("no JSON object", safetensors_file(folder / "zero"));
  EXPECT_QKGEOM_ERROR("a folder", safetensors_file(folder.path()));
  EXPECT_QKGEOM_ERROR("No such file", safetensors_file(folder / "none"));
}

/// Lines of a header, as text where it is no JSON that can be written, the data behind it, and words of the refusal.
TEST_F(Safetensors, RefusesDamagedHeadersAndLyingOffsets) {
  for (const json& line : read_json(QKGEOM_TEST_DATA "/refused-safetensors.json")) {
    const std::string header = line[0].is_string() ? line[0].get<std::string>() : line[0].dump();
    EXPECT_THAT(refusal(header, line[1]), HasSubstr(line[2].get<std::string>())) << line;
  }
  EXPECT_THAT(refusal("{\"\xff\":1}"), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(refusal("{\"" + std::string(5000, 'x') + "\":1}"), HasSubstr("a name of 5000 bytes, more than the 4096"));
  EXPECT_THAT(refusal(R"({"x":{"y":)" + std::string(100000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal(R"({"a\n\u001b[31m)" + std::string(4000, 'x') + R"(":1})"), HasSubstr("entry \"a??[31mxxx"));
}

TEST_F(Safetensors, RefusesToWriteWhatDoesNotFit) {
  const float x = 1;
  const auto write = [&](std::vector<tensor_to_write> t) { write_safetensors(folder / "a", std::move(t)); };
  EXPECT_QKGEOM_ERROR("two tensors would be called x", write({tensor_of("x", {1}, &x), tensor_of("x", {1}, &x)}));
  EXPECT_QKGEOM_ERROR("two tensors would be called __metadata__", write({tensor_of("__metadata__", {1}, &x)}));
  EXPECT_QKGEOM_ERROR("unknown dtype F7", write({{"x", "F7", {}, {}, {}}}));
  EXPECT_QKGEOM_ERROR("was given 0 bytes", write({{"x", "F32", {1}, {}, {}}}));
  EXPECT_QKGEOM_ERROR("wrong number of bytes", write({{"x", "F32", {1}, {}, [](const byte_sink&) {}}}));
  EXPECT_QKGEOM_ERROR("not UTF-8", write({tensor_of("\xff", {1}, &x)}));
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace qkgeom
