// SPDX-License-Identifier: MIT
#include "qkgeom/model/householder.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

void expect_reflects(std::vector<double> direction) {
  const auto u = householder_reflector(direction);
  const double length = dense::norm(direction);
  for (double& x : direction) x /= length;
  const auto image = reflect(u, direction);
  EXPECT_NEAR(image[0], 1, 1e-15);
  for (std::size_t i = 1; i < image.size(); ++i) EXPECT_NEAR(image[i], 0, 1e-15);
  // H is its own inverse, to rounding, however close the direction is to e_1.
  std::vector<double> x{0.3, -2, 5};
  x.resize(direction.size(), 1);
  const auto back = reflect(u, reflect(u, x));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 1e-14);
}

TEST(householder, sends_the_direction_to_the_first_coordinate) {
  expect_reflects({1, 2, -3});
  expect_reflects({-1, 2, -3});
  expect_reflects({-1, 0, 0});
  expect_reflects({0, 1e-200, 0});
  for (const double off : {1e-1, 1e-5, 1e-9, 1e-15, 1e-30}) {
    expect_reflects({1, off, -off});
    expect_reflects({-1, off, -off});
  }
}

TEST(householder, is_the_identity_along_e1_and_for_nothing) {
  EXPECT_TRUE(householder_reflector({3, 0, 0}).empty());
  EXPECT_TRUE(householder_reflector({0, 0, 0}).empty());
}

TEST(householder, near_e1_keeps_full_precision) {
  // beta = e_1 + 1e-9 e_2: b_1 - 1 is -5e-19, which rounding would make 0 and the naive u wrong by half an ulp of 1.
  const auto u = householder_reflector({1, 1e-9, 0});
  EXPECT_NEAR(u[0], -0.5e-9, 1e-24);
  EXPECT_DOUBLE_EQ(u[1], 1);
}

TEST(householder, reflects_matrices_on_both_sides) {
  const std::size_t d = 5;
  const random_stream s{.seed = 3};
  std::vector<double> m(d * d), direction(d);
  for (std::size_t i = 0; i < d; ++i) {
    direction[i] = s.uniform(i) - 0.5;
    for (std::size_t j = 0; j <= i; ++j) m[i * d + j] = m[j * d + i] = s.uniform(100 + i * d + j);
  }
  const auto u = householder_reflector(direction);
  const auto got = reflect_both(u, m);
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < d; ++j) {
      std::vector<double> ei(d), ej(d);
      ei[i] = ej[j] = 1;
      EXPECT_NEAR(got[i * d + j], dense::dot(reflect(u, ei), dense::multiply(m, reflect(u, ej))), 1e-14);
    }
}

}  // namespace
