// SPDX-License-Identifier: MIT
#include <boost/math/distributions/normal.hpp>

#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "tests/common/testing.hpp"

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

TEST(pair_formula, equals_four_phi_phi) {
  const boost::math::normal normal;
  for (double z = 0; z < 37; z += 0.37) {
    const double want = 4 * boost::math::cdf(normal, z) * boost::math::cdf(boost::math::complement(normal, z));
    EXPECT_NEAR(pair_plasticity(z, 1), want, 1e-15 * want + 1e-300) << z;
    EXPECT_DOUBLE_EQ(pair_plasticity(z, 1), pair_plasticity(-z, 1));
    EXPECT_NEAR(win_probability(z, 1) + win_probability(-z, 1), 1, 1e-15);
  }
  EXPECT_GT(pair_plasticity(20, 1), 0);  // 1 - Phi(z) is 0 in f64 from z = 8.3 on
  EXPECT_EQ(pair_plasticity(0, 0), 1);
  EXPECT_EQ(pair_plasticity(1, 0), 0);
  EXPECT_EQ(win_probability(-1, 0), 0);
  EXPECT_EQ(win_probability(0, 0), 0.5);
}

}  // namespace
