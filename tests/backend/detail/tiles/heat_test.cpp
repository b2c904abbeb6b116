// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "qkgeom/backend/detail/tiles/heat.hpp"
#include "qkgeom/core/random.hpp"

namespace {

using namespace qkgeom;

TEST(fixed_point, sums_are_near_exact_and_do_not_overflow) {
  const random_stream draws{.seed = 9};
  for (const double most : {1e-12, 1.0, 3e9})
    for (const int count : {1, 1000, 100000}) {
      const auto unit = tile::fixed_point::of(most, count);
      unsigned long long sum = 0, rest = 0;
      double want = 0;
      for (int i = 0; i < count; ++i) {
        const double x = i % 2 == 0 ? most : most * std::pow(10.0, -12 * draws.uniform(static_cast<std::uint64_t>(i)));
        unit.add(&sum, &rest, x);
        want += x;
      }
      EXPECT_NEAR(unit.value(sum, rest), want, 1e-12 * want);
      sum = rest = 0;
      unit.add(&sum, &rest, 1e-9 * most);
      EXPECT_NEAR(unit.value(sum, rest), 1e-9 * most, 1e-21 * most);
    }
}

}  // namespace
