// SPDX-License-Identifier: MIT
#include "qkgeom/adapt/eigen.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/scores.hpp"
#include "qkgeom/linalg/symmetric.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;
using namespace qkgeom::linalg;

TEST(semidefinite_factor, is_a_factor_also_of_singular_matrices) {
  const random_stream s{.seed = 4};
  for (const index_t rank : {0, 1, 3, 6}) {
    const auto drawn = [&](auto i, auto r) { return s.uniform(static_cast<std::uint64_t>(r * 6 + i)) - 0.5; };
    const auto half = Eigen::MatrixXd::NullaryExpr(6, rank, drawn).eval();
    const Eigen::MatrixXd m = half * half.transpose();
    const auto f = semidefinite_factor({m.data(), m.data() + 36}, 6);
    ASSERT_EQ(f.rank, rank);
    const Eigen::Map<const Eigen::MatrixXd> transposed(f.factor.data(), rank, 6);
    EXPECT_LE((transposed.transpose() * transposed - m).cwiseAbs().maxCoeff(), 1e-14);
  }
  EXPECT_THROW(semidefinite_factor({std::nan("")}, 1), error);
}

TEST(semidefinite_factor, is_a_lower_triangle_unless_the_matrix_is_nearly_singular) {
  // Of (1, x; x, x^2 + s) the factor without pivots is (1, 0; x, sqrt s).
  for (const double x : {0.5, 3.0})
    for (const double s : {1.0, 1e-5, 1e-7, 1e-12}) {
      const auto f = semidefinite_factor({1, x, x, x * x + s}, 2);
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

/// Normal scores about `mean`, padded to whole lanes.
std::vector<float> scores(index_t n, double mean) {
  const random_stream draws{3, 0, 0, draw::grip_query};
  std::vector<float> v(round_up(n, score_lanes), no_score);
  for (index_t j = 0; j < n; ++j) v[j] = static_cast<float>(mean + draws.normal(j));
  return v;
}

TEST(scores, are_split_at_a_threshold) {
  const auto v = scores(1020, 0);
  std::vector<float> share(v.size(), 0.f), expected(v.size(), 0.f);
  for (const float threshold : {0.5f, v[7], 1.5f}) {
    const auto s = split_at(v.data(), std::ssize(v), threshold, 3, share.data());
    float count = 0, above = -no_score, below = no_score, square = 0;
    for (std::size_t j = 0; j < v.size(); ++j) {
      if (v[j] > threshold) {
        expected[j] += 3;
        count += 1;
        above = std::min(above, v[j]);
      } else {
        below = std::max(below, v[j]);
      }
      square += expected[j] * expected[j];
    }
    EXPECT_EQ(s.count, count);
    EXPECT_EQ(s.above, above);
    EXPECT_EQ(s.below, below);
    EXPECT_EQ(s.square, square);
    EXPECT_EQ(share, expected);
  }
}

TEST(scores, have_their_excess_over_mean_and_deviations) {
  for (const double mean : {0.0, 3000.0}) {
    const auto v = scores(1003, mean);
    const index_t n = 1003;
    double sum = 0, square = 0, excess = 0, excess_square = 0, count = 0;
    for (index_t j = 0; j < n; ++j) sum += v[j];
    for (index_t j = 0; j < n; ++j) square += std::pow(v[j] - sum / n, 2);
    const double start = sum / n + 1.5 * std::sqrt(square / n);
    for (index_t j = 0; j < n; ++j)
      if (const double y = v[j] - start; y > 0) count += 1, excess += y, excess_square += y * y;
    const auto e = excess_of(v.data(), n);
    EXPECT_EQ(e.top, *std::max_element(v.begin(), v.end()));
    EXPECT_NEAR(e.start, start, 1e-3);
    EXPECT_EQ(e.count, count);
    EXPECT_NEAR(e.sum, excess, 1e-3 * count);
    EXPECT_NEAR(e.square, excess_square, 4e-3 * count);
  }
}

}  // namespace
