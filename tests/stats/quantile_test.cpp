// SPDX-License-Identifier: MIT
#include "qkgeom/stats/quantile.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/common/refusal.hpp"

namespace {

using namespace qkgeom;

TEST(quantile, known_values) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.25), 1.75);  // numpy.quantile
  EXPECT_DOUBLE_EQ(quantile({4, std::nan(""), 3}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.3), 7);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(quantile, a_share_outside_0_to_1_is_refused) {
  EXPECT_EQ(quantile({1, 2, 3}, 1), 3);
  for (const double share : {-0.1, 1.01, std::nan("")})
    EXPECT_QKGEOM_ERROR("quantile: the share", quantile({1, 2, 3}, share));
}

}  // namespace
