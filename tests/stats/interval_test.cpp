// SPDX-License-Identifier: MIT
#include "qkgeom/stats/interval.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkgeom/stats/jackknife.hpp"

namespace {

using namespace qkgeom;

// Student's t, two-sided 95 %, from printed tables.
TEST(interval, factors_are_those_of_tables) {
  EXPECT_NEAR(interval_factor(1), 12.706, 5e-4);
  EXPECT_NEAR(interval_factor(2), 4.303, 5e-4);
  EXPECT_NEAR(interval_factor(4), 2.776, 5e-4);
  EXPECT_NEAR(interval_factor(11), 2.201, 5e-4);
  EXPECT_NEAR(interval_factor(99), 1.984, 5e-4);
  EXPECT_NEAR(interval_factor(1e9), 1.95996, 1e-5);
  EXPECT_NEAR(interval_factor(4, 0.01), 4.604, 5e-4);
  EXPECT_EQ(interval_factor(4, 0), std::numeric_limits<double>::infinity());
}

TEST(interval, of_too_few_documents_there_is_none) {
  EXPECT_TRUE(std::isnan(interval_factor(0)));
  EXPECT_TRUE(std::isnan(half_width(estimate{1})));
  EXPECT_TRUE(std::isnan(half_width(jackknife(1, {1, 2}))));
  EXPECT_NEAR(half_width(jackknife(2, {1, 2, 3})), 4.303 * std::sqrt(4.0 / 3), 1e-3);
}

}  // namespace
