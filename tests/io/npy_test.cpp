// SPDX-License-Identifier: MIT
#include "qkgeom/io/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put;
using testing::HasSubstr;

template <class T>
class NpyOf : public testing::Test {};
using npy_types = testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t, bool>;
TYPED_TEST_SUITE(NpyOf, npy_types);

TYPED_TEST(NpyOf, RoundTrips) {
  const test::scratch_folder folder;
  for (const std::vector<std::size_t>& shape : {std::vector<std::size_t>{}, {7}, {0, 3}, {2, 3, 4}}) {
    xt::xarray<TypeParam> a(shape);
    std::size_t i = 0;
    for (auto& x : a) x = static_cast<TypeParam>(i++ % 5);
    save_npy(folder / "a.npy", a);
    EXPECT_EQ(load_npy<TypeParam>(folder / "a.npy"), a);
  }
}

/// A NumPy file with this header, of format version 1 or 2.
std::string raw_npy(std::string header, const std::string& data, char version = 1) {
  header += '\n';
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

using Npy = test::in_scratch_folder;

TEST_F(Npy, ReadsOtherFormsOfTheHeader) {
  const std::string data("\0\1\2\3\4\5", 6);
  put(folder / "a",
      raw_npy(R"({"shape": (2, 3), 'fortran_order': True, 'descr': '|u1', })" + std::string(200, ' '), data, 2));
  const auto a = load_npy<std::uint8_t>(folder / "a");
  EXPECT_EQ(a(0, 1), 2) << "column-major in the file";
  EXPECT_EQ(a(1, 2), 5);
  put(folder / "a", raw_npy("{'descr':'|u1','fortran_order':False,'shape':(6,)}", data));
  EXPECT_EQ(load_npy<std::uint8_t>(folder / "a")(4), 4);
}

TEST_F(Npy, RefusesDamagedFiles) {
  const auto load = [&](const std::string& bytes) {
    put(folder / "a.npy", bytes);
    return load_npy<std::uint8_t>(folder / "a.npy");
  };
  const auto header = [&](const std::string& shape) {
    return "{'descr':'|u1','fortran_order':False,'shape':" + shape + "}";
  };
  EXPECT_QKGEOM_ERROR("a.npy: not a NumPy file", load(""));
  EXPECT_QKGEOM_ERROR("a.npy: not a NumPy file", load("not a NumPy file at all"));
  EXPECT_QKGEOM_ERROR("version 9", load(raw_npy(header("(1,)"), "x", 9)));
  EXPECT_QKGEOM_ERROR("cut short", load(raw_npy(header("(1,)"), "").substr(0, 30)));
  EXPECT_QKGEOM_ERROR("needs 2 bytes, the file has 1", load(raw_npy(header("(2,)"), "x")));
  EXPECT_QKGEOM_ERROR("needs 1 bytes, the file has 2", load(raw_npy(header("()"), "xy")));
  EXPECT_QKGEOM_ERROR("far too many bytes", load(raw_npy(header("(4294967296, 4294967296)"), "x")));
  EXPECT_QKGEOM_ERROR("must have type |u1, not <f8",
                      load(raw_npy("{'descr':'<f8','fortran_order':False,'shape':()}", "")));
  for (const auto* shape : {"(-1,)", "(1", "1", "(1.5,)", "(99999999999999999999,)", "(1,,2)", "(1,) 'x'"})
    EXPECT_QKGEOM_ERROR("the NumPy header is damaged", load(raw_npy(header(shape), "x")));
  for (const auto* text :
       {"", "{}", "{'descr':'|u1'}", "{'descr':'|u1','descr':'|u1'}", "{'x':1}", "{'descr", "{'fortran_order':1}"})
    EXPECT_QKGEOM_ERROR("the NumPy header is damaged", load(raw_npy(text, "x")));
  EXPECT_QKGEOM_ERROR("No such file", load_npy<float>(folder / "none.npy"));
  EXPECT_QKGEOM_ERROR("cannot write /dev/full", save_npy("/dev/full", xt::xarray<double>{1.0}));
}

TEST_F(Npy, WritesExpressions) {
  const xt::xarray<double> a{{1, 2}, {3, 4}};
  save_npy(folder / "a", a + a);
  EXPECT_EQ(load_npy<double>(folder / "a")(1, 0), 6);
}

}  // namespace
}  // namespace qkgeom
