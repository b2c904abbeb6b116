// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"

namespace {

using namespace qkgeom;

TEST(cpu_pair_math, f32_lanes_err_by_at_most_2e_7_and_are_never_negative) {
  double worst = 0;
  for (double z = 0; z < 30; z += 1e-4)
    for (const double v : {0.031, 1.0, 27.0}) {
      const auto m = static_cast<float>(z * std::sqrt(v));
      const auto p = cpu::plasticity_lanes(cpu::splat(m), cpu::splat(static_cast<float>(v)));
      for (int l = 0; l < cpu::lanes<float>; ++l) {
        ASSERT_GE(p[l], 0.0f);
        worst = std::max(worst, std::abs(static_cast<double>(p[l]) - pair_plasticity(m, static_cast<float>(v))));
      }
    }
  EXPECT_LE(worst, 2e-7);
  EXPECT_GT(worst, 1e-9);
}

}  // namespace
