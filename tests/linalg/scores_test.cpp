// SPDX-License-Identifier: MIT
#include "qkgeom/linalg/scores.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::linalg {
namespace {

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
}  // namespace qkgeom::linalg
