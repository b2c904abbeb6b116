// SPDX-License-Identifier: MIT
#include "qkgeom/geometry/head_class.hpp"

#include <gtest/gtest.h>

#include "tests/common/refusal.hpp"

namespace {

using namespace qkgeom;

TEST(head_class, every_corner_of_the_thresholds) {
  EXPECT_EQ(classify(0.8, -0.9), head_class::position_dominated);
  EXPECT_EQ(classify(-0.8, 0.1), head_class::q_positional);
  EXPECT_EQ(classify(0.8, 0.6), head_class::q_positional);
  EXPECT_EQ(classify(0.1, 0.8), head_class::k_positional);
  EXPECT_EQ(classify(0.5, 0.8), head_class::mixed);
  EXPECT_EQ(classify(0.1, 0.2), head_class::content_focused);
  EXPECT_EQ(classify(0.5, 0.5), head_class::mixed);
  EXPECT_EQ(classify(0.6, 0.6, {.low = 0.5, .high = 0.5}), head_class::position_dominated);
  EXPECT_QKGEOM_ERROR("the threshold low", classify(0.5, 0.5, {.low = 0.7, .high = 0.3}));
  EXPECT_EQ(classify(0.5, 0.5, {.low = 0.6, .high = 0.7}), head_class::content_focused);
}

}  // namespace
