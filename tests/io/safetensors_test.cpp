// SPDX-License-Identifier: MIT
#include "qkgeom/io/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  EXPECT_THAT(refusal('{' + entry("x", "F4", "[3]", "[0,2]") + '}', "ab"), HasSubstr("12 bits, which are no whole"));
  EXPECT_THAT(refusal('{' + entry("x", "F4", "[2]", "[0,2]") + '}', "ab"), HasSubstr("needs 1 bytes"));
  EXPECT_THAT(refusal('{' + entry("x", "F7", "[2]", "[0,2]") + '}', "ab"), HasSubstr("has the unknown dtype \"F7\""));
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
  EXPECT_THAT(refusal(R"({"x":{"note":1},)" + entry("y", "U8", "[1]", "[0,1]") + '}', "a"),
              HasSubstr("tensor \"x\" has no dtype"));
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

TEST_F(Safetensors, RefusesADamagedHeader) {
  EXPECT_THAT(refusal("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("{\"x\""), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(refusal("{} x"), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(refusal("{\"\xff\":1}"), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(refusal(std::string("{} \0{\"x\":1}", 11)), HasSubstr("not valid JSON at byte 4, which is NUL"));
  EXPECT_THAT(refusal("{\"" + std::string(5000, 'x') + "\":1}"), HasSubstr("a name of 5000 bytes, more than the 4096"));
  EXPECT_THAT(refusal(R"({"x":1})"), HasSubstr("entry \"x\" is a number instead of an object"));
  EXPECT_THAT(refusal(R"({"x":null})"), HasSubstr("null"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})"),
              HasSubstr("metadata field \"a\" is a number instead of a string"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":{}}})"), HasSubstr("metadata field \"a\" is an object"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":"","a":""}})"), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"x":{"dtype":"U8","shape":[1]}})"), HasSubstr("tensor \"x\" has no data_offsets"));
  EXPECT_THAT(refusal(R"({"x":{"shape":[1],"data_offsets":[0,1]}})"), HasSubstr("has no dtype"));
  EXPECT_THAT(refusal(R"({"x":{"dtype":"U8","data_offsets":[0,1]}})"), HasSubstr("has no shape"));
  EXPECT_THAT(refusal(R"({"x":{"dtype":"U8","dtype":"U8"}})"), HasSubstr("two fields dtype"));
  EXPECT_THAT(refusal(R"({"x":{"dtype":8}})"), HasSubstr("dtype of tensor \"x\" holds a number"));
  EXPECT_THAT(refusal(R"({"x":{"shape":{}}})"), HasSubstr("shape of tensor \"x\" holds an object"));
  EXPECT_THAT(refusal(R"({"x":{"shape":[[1]]}})"), HasSubstr("shape of tensor \"x\" holds a list"));
  EXPECT_THAT(refusal(R"({"x":{"shape":[-1]}})"), HasSubstr("negative"));
  EXPECT_THAT(refusal(R"({"x":{"shape":[1.5]}})"), HasSubstr("fraction"));
  EXPECT_THAT(refusal(R"({"x":{"y":)" + std::string(100000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal('{' + entry("x", "U8", "[1]", "[0,1]") + ',' + entry("x", "U8", "[1]", "[0,1]") + '}', "a"),
              HasSubstr("names \"x\" twice"));
  EXPECT_THAT(refusal('{' + entry("x", "U8", "[1]", "[0]") + '}', "a"), HasSubstr("two entries, not 1"));
  EXPECT_THAT(refusal('{' + entry("x", "U8", "[1]", "[0,1,2]") + '}', "a"), HasSubstr("more than two"));
  EXPECT_THAT(refusal(R"({"a\n\u001b[31m)" + std::string(4000, 'x') + R"(":1})"), HasSubstr("entry \"a??[31mxxx"));
  std::string ones = "[1";
  for (int i = 0; i < 100; ++i) ones += ",1";
  EXPECT_THAT(refusal('{' + entry("x", "U8", ones + ']', "[0,1]") + '}', "a"), HasSubstr("more than 64 axes"));
}

TEST_F(Safetensors, RefusesLyingOffsets) {
  const auto one = [](const std::string& shape, const std::string& offsets, const std::string& data) {
    return refusal('{' + entry("x", "F32", shape, offsets) + '}', data);
  };
  EXPECT_THAT(one("[1]", "[0,4]", "abc"), HasSubstr("cut short"));
  EXPECT_THAT(one("[1]", "[4,0]", "abcd"), HasSubstr("lies at bytes 4 to 0"));
  EXPECT_THAT(one("[1]", "[0,18446744073709551615]", "abcd"), HasSubstr("lies at bytes"));
  EXPECT_THAT(one("[1]", "[0,18446744073709551616]", "abcd"), HasSubstr("holds a fraction"));
  EXPECT_THAT(one("[2]", "[0,4]", "abcd"), HasSubstr("needs 8 bytes, but its data_offsets span 4"));
  EXPECT_THAT(one("[4611686018427387904]", "[0,0]", ""), HasSubstr("too large to exist"));
  EXPECT_THAT(one("[4294967296,4294967296]", "[0,0]", ""), HasSubstr("too large to exist"));
  EXPECT_THAT(one("[9223372036854775807,2]", "[0,4]", "abcd"), HasSubstr("too large to exist"));
  EXPECT_THAT(one("[9223372036854775808]", "[0,4]", "abcd"), HasSubstr("the shape of tensor"));
  EXPECT_THAT(one("[1]", "[0,4]", "abcdx"), HasSubstr("end at byte 4 of 5"));
  EXPECT_THAT(one("[1]", "[1,5]", "xabcd"), HasSubstr("leaves a hole after byte 0"));
  const auto two = [](const std::string& a, const std::string& b, const std::string& data) {
    return refusal('{' + entry("x", "U8", "[4]", a) + ',' + entry("y", "U8", "[4]", b) + '}', data);
  };
  EXPECT_THAT(two("[0,4]", "[2,6]", "abcdef"), HasSubstr("inside the tensor before it"));
  EXPECT_THAT(two("[0,4]", "[0,4]", "abcd"), HasSubstr("inside the tensor before it"));
  EXPECT_THAT(two("[5,9]", "[0,4]", "abcdefghi"), HasSubstr("leaves a hole after byte 4"));
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
