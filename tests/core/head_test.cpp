// SPDX-License-Identifier: MIT
#include "qkgeom/core/head.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

TEST(layer_view, wrong_shapes_are_named) {
  std::vector<float> x(24);
  std::vector<std::int32_t> t(3);
  const vector_view<const std::int32_t> rows{t.data(), 3}, fewer{t.data(), 2};
  const matrix_view<const float> m{x.data(), 3, 4, 4}, wider{x.data(), 3, 5, 5};
  const auto check = [](const head_view<float>& h) { check_shapes(as_layer(h)); };
  EXPECT_NO_THROW(check({m, rows, rows, m, rows, rows}));
  EXPECT_QKGEOM_ERROR("q_position has 2 entries for 3 rows", check({m, fewer, rows, m, rows, rows}));
  EXPECT_QKGEOM_ERROR("k_example", check({m, rows, rows, m, rows, fewer}));
  EXPECT_QKGEOM_ERROR("same head size", check({m, rows, rows, wider, rows, rows}));
  EXPECT_QKGEOM_ERROR("window", check({m, rows, rows, m, rows, rows, 0}));
  const matrix_view<const float> without_stride{x.data(), 3, 4}, upwards{x.data() + 8, 3, 4, -4}, one{x.data(), 1, 4};
  EXPECT_QKGEOM_ERROR("q: rows of 4 elements cannot begin 0 apart (row_stride)",
                      check({without_stride, rows, rows, m, rows, rows}));
  EXPECT_QKGEOM_ERROR("k: rows", check({m, rows, rows, without_stride, rows, rows}));
  EXPECT_NO_THROW(check({upwards, rows, rows, m, rows, rows}));
  EXPECT_NO_THROW(check({m, rows, rows, one, {t.data(), 1}, {t.data(), 1}}));
}

}  // namespace
