// SPDX-License-Identifier: MIT
// What sums over pairs are made of: the largest value, lanes, the order of observed scores.
#include <boost/math/special_functions/erf.hpp>

#include "qkgeom/backend/detail/cpu/empirical_pairs.hpp"
#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

TEST(largest_value, of_bf16_is_that_of_the_same_values_in_f64) {
  constexpr index_t rows = 70, heads = 3;
  thread_pool pool(2);
  const random_stream draws{.seed = 3, .use = draw::planted};
  for (const index_t dim : {1, 5, 16, 35, 64}) {
    for (index_t place = 0; place < rows * heads * dim; place += 97) {
      std::vector<bf16> narrow;
      for (index_t i = 0; i < rows * heads * dim; ++i) narrow.push_back(round_to<bf16>(draws.normal(i)));
      narrow[place] = round_to<bf16>(-100.0);
      narrow[(place + 1) % narrow.size()] = round_to<bf16>(std::numeric_limits<double>::quiet_NaN());
      const std::vector<double> wide(narrow.begin(), narrow.end());
      const tensor_view<const bf16> x{narrow.data(), rows, heads, dim, heads * dim, dim};
      const tensor_view<const double> y{wide.data(), rows, heads, dim, heads * dim, dim};
      EXPECT_EQ(cpu::largest_value(pool, cpu::widened(x)), 100) << dim << ' ' << place;
      EXPECT_EQ(cpu::largest_value(pool, cpu::widened(y)), 100) << dim << ' ' << place;
    }
  }
  const auto infinity = round_to<bf16>(-std::numeric_limits<double>::infinity());
  EXPECT_EQ(cpu::largest_value(pool, cpu::widened(tensor_view<const bf16>{&infinity, 1, 1, 1, 1, 1})), HUGE_VAL);
}

TEST(lane_sums, add_up_each_lane_in_f64) {
  cpu::lane_sums<float> sum;
  cpu::vec<float> x{};
  double want = 0;
  for (int l = 0; l < cpu::lanes<float>; ++l) {
    x[l] = 1 + std::ldexp(1.0f, -20) * static_cast<float>(1 << l % 8);
    want += 3 * static_cast<double>(x[l]);
  }
  for (int i = 0; i < 3; ++i) sum.add(x);
  EXPECT_EQ(sum.value(), want);
}

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

template <class F>
class observed_scores : public testing::Test {};
using score_types = testing::Types<float, double>;
TYPED_TEST_SUITE(observed_scores, score_types);

/// Expects the sum over the pairs of the first keys, for each number of them. A score is the product of query and key,
/// which have one coordinate.
template <class F>
void expect_sums(const std::vector<F>& queries, const std::vector<F>& all_keys) {
  const auto n = static_cast<index_t>(queries.size());
  const index_t width = cpu::padded<std::int16_t>(n);
  std::vector<F> q(width);
  std::copy(queries.begin(), queries.end(), q.begin());
  cpu::observed_scores<F> scores;
  double want = 0;
  for (index_t count = 1; count <= static_cast<index_t>(all_keys.size()); ++count) {
    std::vector<F> keys(all_keys.begin(), all_keys.begin() + count);
    for (index_t i = 0; i + 1 < count; ++i) {
      std::int64_t doubled = 0;
      for (const F x : queries) doubled += (x * keys.back() > x * keys[i]) + (x * keys.back() >= x * keys[i]);
      want += static_cast<double>(doubled * (2 * n - doubled));
    }
    keys.resize(count + cpu::block_rows);
    scores.set(q.data(), n, width, keys.data(), count, 1);
    EXPECT_EQ(scores.sum(), want) << n << " queries, " << count << " keys";
  }
}

TYPED_TEST(observed_scores, are_counted_as_they_compare) {
  using F = TypeParam;
  const random_stream stream{.seed = 5};
  for (const int n : {2, 7, 8, 31, 64, 100, 129, 300}) {
    std::vector<F> queries, keys;
    for (int i = 0; i < n; ++i) queries.push_back(static_cast<F>(stream.uniform(i) - 0.5));
    for (int i = 0; i < 40; ++i) keys.push_back(static_cast<F>(stream.uniform(1000 + i) - 0.5));
    expect_sums(queries, keys);
    keys[11] = keys[3];  // a tie
    keys[20] = F{1000};  // a sink: the others share few places
    queries[1] = F{0};   // all scores of a query are one
    expect_sums(queries, keys);
    for (F& k : keys) k = std::round(8 * k) / 8;  // many ties
    expect_sums(queries, keys);
  }
}

TYPED_TEST(observed_scores, whose_range_the_type_does_not_hold_are_counted) {
  using F = TypeParam;
  constexpr F largest = std::numeric_limits<F>::max(), least = std::numeric_limits<F>::denorm_min();
  std::vector<F> queries(70, F{1});
  queries[3] = F{-1};
  expect_sums(queries, {-largest, largest, F{0}, F{1}, largest, F{-3}});
  expect_sums(queries, {F{0}, least, F{2} * least, least, F{0}, F{3} * least});
}

// So many queries that a lane's 16 bits would not hold all wins.
TYPED_TEST(observed_scores, of_very_many_queries_are_counted) {
  using F = TypeParam;
  const std::vector<F> queries(40000 * cpu::simd_bytes / 2 + 3, F{1});
  expect_sums(queries, {F{0}, F{1}, F{2}, F{3}, F{4}, F{2}});
}

}  // namespace
