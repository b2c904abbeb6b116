// SPDX-License-Identifier: MIT
#include "qkgeom/stats/shapley.hpp"
#include "tests/common/testing.hpp"

namespace {

using qkgeom::shapley_values;

TEST(shapley, sums_give_each_term_to_its_cause) {
  // 3 a + 5 b - 2 c + 7
  std::vector<double> value;
  for (unsigned set = 0; set < 8; ++set) value.push_back(7 + 3 * (set & 1) + 5 * (set >> 1 & 1) - 2.0 * (set >> 2 & 1));
  const auto found = shapley_values(value);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_DOUBLE_EQ(found[0], 3);
  EXPECT_DOUBLE_EQ(found[1], 5);
  EXPECT_DOUBLE_EQ(found[2], -2);
}

// The glove game: one left glove (cause 0) and two right ones make a pair worth 1; known values 2/3, 1/6, 1/6.
TEST(shapley, of_the_glove_game) {
  std::vector<double> value;
  for (unsigned set = 0; set < 8; ++set) value.push_back((set & 1) && (set & 6) ? 1 : 0);
  const auto found = shapley_values(value);
  EXPECT_NEAR(found[0], 2.0 / 3, 1e-15);
  EXPECT_NEAR(found[1], 1.0 / 6, 1e-15);
  EXPECT_NEAR(found[2], 1.0 / 6, 1e-15);
}

TEST(shapley, adds_up_to_all_less_none) {
  for (const std::size_t n : {0u, 1u, 2u, 4u, 6u}) {
    std::vector<double> value;
    for (std::size_t set = 0; set < std::size_t{1} << n; ++set)
      value.push_back(static_cast<double>(set * set * 37 % 101));
    const auto found = shapley_values(value);
    EXPECT_EQ(found.size(), n);
    EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), value.back() - value.front(), 1e-11) << n;
  }
  EXPECT_QKGEOM_ERROR("3 values are not one for each set", shapley_values({1, 2, 3}));
}

}  // namespace
