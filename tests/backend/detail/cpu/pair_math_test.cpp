// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <limits>

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

TEST(cpu_pair_math, erfc_of_f64_lanes_errs_by_at_most_1e_15_of_its_size) {
  for (double x = 0; x < 30; x += 0.0007) {
    const auto e = cpu::erfc_lanes(cpu::splat(x));
    const auto right = static_cast<double>(boost::math::erfc(static_cast<long double>(x)));
    for (int l = 0; l < cpu::lanes<double>; ++l)
      ASSERT_LE(std::abs(e[l] - right), std::max(1e-15 * right, 1e-322)) << x;
  }
  EXPECT_EQ(cpu::erfc_lanes(cpu::splat(std::numeric_limits<double>::infinity()))[0], 0);
}

}  // namespace
