// SPDX-License-Identifier: MIT
#include "qkgeom/linalg/symmetric.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

TEST(semidefinite_factor, is_a_factor_also_of_singular_matrices) {
  const random_stream s{.seed = 4};
  for (const index_t rank : {0, 1, 3, 6}) {
    const index_t d = 6;
    std::vector<double> m(36);
    for (index_t r = 0; r < rank; ++r)
      for (std::size_t i = 0; i < 6; ++i)
        for (std::size_t j = 0; j < 6; ++j)
          m[i * 6 + j] += (s.uniform(static_cast<std::uint64_t>(r) * 6 + i) - 0.5) *
                          (s.uniform(static_cast<std::uint64_t>(r) * 6 + j) - 0.5);
    const auto f = linalg::semidefinite_factor(m, d);
    EXPECT_EQ(f.rank, rank);
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 6; ++j) {
        double product = 0;
        for (std::size_t c = 0; c < static_cast<std::size_t>(rank); ++c)
          product +=
              f.factor[i * static_cast<std::size_t>(rank) + c] * f.factor[j * static_cast<std::size_t>(rank) + c];
        EXPECT_NEAR(product, m[i * 6 + j], 1e-14);
      }
  }
  EXPECT_THROW(linalg::semidefinite_factor({std::nan("")}, 1), error);
}

TEST(semidefinite_factor, is_a_lower_triangle_unless_the_matrix_is_nearly_singular) {
  // Of (1, x; x, x^2 + s) the factor without pivots is (1, 0; x, sqrt s).
  for (const double x : {0.5, 3.0})
    for (const double s : {1.0, 1e-5, 1e-7, 1e-12}) {
      const auto f = linalg::semidefinite_factor({1, x, x, x * x + s}, 2);
      ASSERT_EQ(f.rank, 2);
      const auto& l = f.factor;
      EXPECT_NEAR(l[0] * l[0] + l[1] * l[1], 1, 1e-15);
      EXPECT_NEAR(l[0] * l[2] + l[1] * l[3], x, 1e-14);
      EXPECT_NEAR(l[2] * l[2] + l[3] * l[3], x * x + s, 1e-14);
      if (s >= 1e-5) {
        EXPECT_EQ(l[1], 0);
        EXPECT_NEAR(l[3], std::sqrt(s), 1e-10);
      }
      // With pivots the larger diagonal entry comes first, whose row then has one entry.
      if (s <= 1e-7 && x > 1) {
        EXPECT_EQ(l[3], 0);
      }
    }
}

}  // namespace
