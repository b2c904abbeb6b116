// SPDX-License-Identifier: MIT
#include "qkgeom/rotary/rotation_between.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/common/refusal.hpp"

namespace {

using namespace qkgeom;

TEST(vector_rotation, rotates_the_planes_of_its_style_and_leaves_the_rest) {
  const captured_rope half{"half", 4, 1, {0.5, 0.01}}, pairs{"interleaved", 4, 1, {0.5, 0.01}};
  const std::array<double, 6> row{1, 2, 3, 4, 5, 6};
  auto x = row, y = row;
  vector_rotation(half, 10)(x.data());
  vector_rotation(pairs, 10)(y.data());
  const double c = std::cos(5), s = std::sin(5), c1 = std::cos(0.1), s1 = std::sin(0.1);
  const std::array<double, 6> as_halves{c - 3 * s, 2 * c1 - 4 * s1, s + 3 * c, 2 * s1 + 4 * c1, 5, 6},
      as_pairs{c - 2 * s, s + 2 * c, 3 * c1 - 4 * s1, 3 * s1 + 4 * c1, 5, 6};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(x[i], as_halves[i], 1e-15) << i;
    EXPECT_NEAR(y[i], as_pairs[i], 1e-15) << i;
  }
}

TEST(vector_rotation, begins_at_the_first_coordinate_of_the_embedding) {
  for (const char* style : {"half", "interleaved"}) {
    const captured_rope whole{style, 4, 1, {0.5, 0.01}}, part{style, 4, 1, {0.5, 0.01}, 3};
    const std::array<double, 8> row{1, 2, 3, 4, 5, 6, 7, 8};
    auto x = row, y = row;
    vector_rotation(part, 10)(x.data());
    vector_rotation(whole, 10)(y.data() + 3);
    EXPECT_EQ(x, y) << style;
    EXPECT_EQ(x[2], 3) << style;
    EXPECT_QKGEOM_ERROR("do not rotate the same planes", vector_rotation::between(&whole, 0, part, 0));
  }
}

TEST(vector_rotation, leads_from_one_embedding_and_position_to_another) {
  const captured_rope first{"half", 4, 1.5, {0.5, 0.01}}, second{"half", 4, 2, {0.25, 0.03}};
  std::array<double, 4> x{1, -2, 3, 4}, direct = x;
  vector_rotation::between(nullptr, 0, first, 7)(x.data());
  EXPECT_NEAR(x[0], 1.5 * (std::cos(3.5) - 3 * std::sin(3.5)), 1e-14);
  vector_rotation::between(&first, 7, second, 11)(x.data());
  vector_rotation::between(nullptr, 0, second, 11)(direct.data());
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(x[i], direct[i], 1e-14) << i;
  const captured_rope other{"interleaved", 4, 1, {0.5, 0.01}};
  EXPECT_QKGEOM_ERROR("do not rotate the same planes", vector_rotation::between(&first, 0, other, 0));
}

}  // namespace
