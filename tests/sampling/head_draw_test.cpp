// SPDX-License-Identifier: MIT
#include "qkgeom/sampling/head_draw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace {

using namespace qkgeom;

TEST(draw_heads, without_replacement_and_even) {
  std::map<head_id, int> count;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto heads = draw_heads({1, 5, 6}, 4, 5, seed);
    ASSERT_EQ(heads.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      if (i > 0) {
        ASSERT_LT(heads[i - 1], heads[i]);
      }
      ++count[heads[i]];
    }
  }
  ASSERT_EQ(count.size(), 12u);
  for (const auto& [h, n] : count) EXPECT_NEAR(n, 2000 * 5.0 / 12, 5 * std::sqrt(2000 * 5.0 / 12 * 7 / 12));
  EXPECT_EQ(draw_heads({0}, 3, 100, 1).size(), 3u);
}

TEST(key_head, grouped_query_attention) {
  for (index_t h = 0; h < 8; ++h) EXPECT_EQ(key_head_of(h, 8, 2), h / 4);
  EXPECT_THROW(key_head_of(0, 7, 2), error);
  EXPECT_THROW(key_head_of(8, 8, 2), error);
}

}  // namespace
