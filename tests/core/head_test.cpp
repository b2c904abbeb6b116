// SPDX-License-Identifier: MIT
#include "qkgeom/core/head.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace qkgeom;

TEST(layer_view, wrong_shapes_are_named) {
  std::vector<float> x(24);
  std::vector<std::int32_t> t(3);
  const vector_view<const std::int32_t> rows{t.data(), 3}, fewer{t.data(), 2};
  const matrix_view<const float> m{x.data(), 3, 4, 4}, wider{x.data(), 3, 5, 5};
  const auto message = [](const head_view<float>& h) {
    try {
      check_shapes(as_layer(h));
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message({m, rows, rows, m, rows, rows}), "nothing");
  EXPECT_THAT(message({m, fewer, rows, m, rows, rows}), testing::HasSubstr("q_position has 2 entries for 3 rows"));
  EXPECT_THAT(message({m, rows, rows, m, rows, fewer}), testing::HasSubstr("k_example"));
  EXPECT_THAT(message({m, rows, rows, wider, rows, rows}), testing::HasSubstr("same head size"));
  EXPECT_THAT(message({m, rows, rows, m, rows, rows, 0}), testing::HasSubstr("window"));
  const matrix_view<const float> without_stride{x.data(), 3, 4}, upwards{x.data() + 8, 3, 4, -4}, one{x.data(), 1, 4};
  EXPECT_THAT(message({without_stride, rows, rows, m, rows, rows}),
              testing::HasSubstr("q: rows of 4 elements cannot begin 0 apart (row_stride)"));
  EXPECT_THAT(message({m, rows, rows, without_stride, rows, rows}), testing::HasSubstr("k: rows"));
  EXPECT_EQ(message({upwards, rows, rows, m, rows, rows}), "nothing");
  EXPECT_EQ(message({m, rows, rows, one, {t.data(), 1}, {t.data(), 1}}), "nothing");
}

}  // namespace
