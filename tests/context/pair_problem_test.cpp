// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "qkgeom/context/pair_problem.hpp"

namespace {

using namespace qkgeom;

TEST(admissible, numbers_of_pairs_go_back_and_forth) {
  std::int64_t r = 0;
  for (std::int32_t j = 1; j < 200; ++j)
    for (std::int32_t i = 0; i < j; ++i, ++r) {
      const auto p = pair_of_number(r);
      ASSERT_EQ(p.i, i);
      ASSERT_EQ(p.j, j);
    }
  const std::int64_t m = 3'000'000'000 / 3;
  const auto last = pair_of_number(m * (m - 1) / 2 - 1);
  EXPECT_EQ(last.i, m - 2);
  EXPECT_EQ(last.j, m - 1);
}

}  // namespace
