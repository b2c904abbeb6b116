// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/tiles/math.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"
#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

TEST(tile_math, f32_plasticity_errs_by_at_most_2e_7_and_is_never_negative) {
  double worst = 0;
  for (double z = 0; z < 30; z += 1e-4)
    for (const double v : {0.031, 1.0, 27.0}) {
      const auto m = static_cast<float>(z * std::sqrt(v)), w = static_cast<float>(v);
      const float p = tile::plasticity(m, w);
      ASSERT_GE(p, 0.0f);
      worst = std::max(worst, std::abs(static_cast<double>(p) - pair_plasticity(m, w)));
    }
  EXPECT_LE(worst, 2e-7);
  EXPECT_GT(worst, 1e-9);
  EXPECT_EQ(tile::plasticity(0.0f, tile::least_v<float>), 1.0f);
  EXPECT_LE(tile::plasticity(1e17f, tile::least_v<float>), 1e-15f);
}

TEST(tile_math, split_operands_hold_f32_to_2_to_the_minus_17) {
  const random_stream stream{.seed = 3};
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(std::ldexp(stream.uniform(2 * i) - 0.5, static_cast<int>(i % 40) - 20));
    const auto s = tile::split_of(x);
    EXPECT_LE(std::abs(static_cast<double>(x) - static_cast<double>(s.high) - static_cast<double>(s.low)),
              std::ldexp(std::abs(static_cast<double>(x)), -17));
  }
}

/// Scaled keys (n, d) whose v are of order 1; every eighth key lies close to the one before it.
std::vector<float> tile_of_keys(index_t n, index_t d) {
  const random_stream stream{.seed = 8};
  std::vector<float> z(n * d);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const auto row = i / d;
    const double x = (stream.uniform(i) - 0.5) * std::sqrt(12.0 / static_cast<double>(d));
    z[i] = static_cast<float>(row % 8 == 7 ? z[i - d] + 0.02 * x : x);
  }
  return z;
}

/// Largest error and mean signed error of the plasticity of all pairs, with v = n_i + n_j - 2 g from products of bf16
/// in f32, against differences in f64. `mend`: v of pairs that have cancelled comes from the difference.
template <class Product, class Square>
std::pair<double, double> gram_errors(index_t n, index_t d, const Product& product, const Square& square, bool mend) {
  const auto z = tile_of_keys(n, d);
  const auto at = [&](index_t i, index_t c) { return z[i * d + c]; };
  const auto dot = [&](index_t i, index_t j) {
    float sum = 0;
    for (index_t c = 0; c < d; ++c) sum += product(at(i, c), at(j, c));
    return sum;
  };
  const auto norm = [&](index_t i) {
    float sum = 0;
    for (index_t c = 0; c < d; ++c) sum += square(at(i, c));
    return sum;
  };
  double worst = 0, sum = 0, pairs = 0;
  for (index_t j = 1; j < n; ++j)
    for (index_t i = 0; i < j; ++i) {
      double exact = 0, m = 0;
      for (index_t c = 0; c < d; ++c) {
        const double x = static_cast<double>(at(i, c)) - static_cast<double>(at(j, c));
        exact += x * x;
        m += 0.2 * x;
      }
      const float both = norm(i) + norm(j);
      float v = both - 2 * dot(i, j);
      if (mend && !(v > both * tile::cancelled)) v = static_cast<float>(exact);
      v = std::max(v, tile::least_v<float>);
      const double error = static_cast<double>(tile::plasticity(static_cast<float>(m), v)) - pair_plasticity(m, exact);
      worst = std::max(worst, std::abs(error));
      sum += error;
      ++pairs;
    }
  return {worst, std::abs(sum / pairs)};
}

TEST(tile_math, gram_tiles_of_split_operands_are_as_good_as_f32) {
  const auto exact_product = [](float x, float y) {
    const auto a = tile::split_of(x), b = tile::split_of(y);
    const float ah = a.high, al = a.low, bh = b.high, bl = b.low;
    return ah * bh + (ah * bl + al * bh);
  };
  const auto fast_product = [](float x, float y) {
    return static_cast<float>(bf16::round(x)) * static_cast<float>(bf16::round(y));
  };
  const auto exact_square = [](float x) { return tile::split_square(tile::split_of(x)); };
  const auto fast_square = [&](float x) { return fast_product(x, x); };
  const auto [worst, mean] = gram_errors(160, 128, exact_product, exact_square, true);
  const auto [fast_worst, fast_mean] = gram_errors(160, 128, fast_product, fast_square, true);
  RecordProperty("split_worst", std::to_string(worst));
  RecordProperty("fast_worst", std::to_string(fast_worst));
  EXPECT_LE(worst, 1e-4);  // of a pair just above the threshold of cancellation
  EXPECT_LE(mean, 1e-6);
  EXPECT_LE(fast_worst, 0.1);
  EXPECT_LE(fast_mean, 2e-3);
  EXPECT_GT(fast_mean, mean);
}

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
