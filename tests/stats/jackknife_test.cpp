// SPDX-License-Identifier: MIT
#include "qkgeom/stats/jackknife.hpp"
#include "qkgeom/stats/interval.hpp"
#include "qkgeom/stats/shapley.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

TEST(jackknife, error_of_a_plain_mean_is_the_usual_one) {
  const std::vector<double> x{3, -1, 4, 7.5, 2}, one(x.size(), 1.0);
  const double mean = 15.5 / 5;
  double square = 0;
  for (const double v : x) square += (v - mean) * (v - mean);
  const auto e = ratio_of_sums(x, one);
  EXPECT_DOUBLE_EQ(e.value, mean);
  EXPECT_NEAR(e.error, std::sqrt(square / (5 * 4)), 1e-14);
}

TEST(jackknife, ratios_leave_documents_out_with_what_they_weigh) {
  // Without one document each: 5 / 3, 4 / 3 and 3 / 2; the one of no weight is not left out.
  const auto e = ratio_of_sums({1, 2, 0, 3}, {1, 1, 0, 2});
  EXPECT_DOUBLE_EQ(e.value, 1.5);
  const double a = 5.0 / 3, b = 4.0 / 3, c = 1.5, mean = (a + b + c) / 3;
  EXPECT_NEAR(e.error,
              std::sqrt(2.0 / 3 * ((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean))),
              1e-15);
}

TEST(jackknife, has_no_error_of_fewer_than_three) {
  EXPECT_TRUE(std::isnan(ratio_of_sums({}, {}).value));
  EXPECT_TRUE(std::isnan(ratio_of_sums({0, 0}, {0, 0}).value));
  const auto one = ratio_of_sums({6, 0}, {4, 0});
  EXPECT_DOUBLE_EQ(one.value, 1.5);
  EXPECT_TRUE(std::isnan(one.error));
  EXPECT_TRUE(std::isnan(ratio_of_sums({6, 1, 0}, {4, 2, 0}).error));
  EXPECT_TRUE(std::isnan(jackknife_error({2, none, 4})));
  EXPECT_DOUBLE_EQ(jackknife_error({2, none, 4, 6}), std::sqrt(16.0 / 3));
  EXPECT_EQ(jackknife(1, {2, none, 4, 6}).freedom, 2);
  EXPECT_EQ(jackknife(1, {2, none, 4}).freedom, 0);
}

TEST(jackknife, the_freedom_of_a_difference_is_welch_s) {
  const auto d = independent_difference({3, 0.2, 4}, {1, 0.1, 9});
  EXPECT_DOUBLE_EQ(d.value, 2);
  EXPECT_DOUBLE_EQ(d.error, std::sqrt(0.05));
  EXPECT_NEAR(d.freedom, 0.05 * 0.05 / (0.04 * 0.04 / 4 + 0.01 * 0.01 / 9), 1e-12);
  EXPECT_EQ(independent_difference({3, 0, 4}, {1, 0, 9}).freedom, 4);
  EXPECT_TRUE(std::isnan(independent_difference({3, none}, {1, 0.1, 9}).error));
}

// Student's t, two-sided 95 %, from printed tables.
TEST(interval, factors_are_those_of_tables) {
  EXPECT_NEAR(interval_factor(1), 12.706, 5e-4);
  EXPECT_NEAR(interval_factor(2), 4.303, 5e-4);
  EXPECT_NEAR(interval_factor(4), 2.776, 5e-4);
  EXPECT_NEAR(interval_factor(11), 2.201, 5e-4);
  EXPECT_NEAR(interval_factor(99), 1.984, 5e-4);
  EXPECT_NEAR(interval_factor(1e9), 1.95996, 1e-5);
  EXPECT_NEAR(interval_factor(4, 0.01), 4.604, 5e-4);
  EXPECT_EQ(interval_factor(4, 0), std::numeric_limits<double>::infinity());
}

TEST(interval, probability_of_a_difference_is_students) {
  for (const double freedom : {1.0, 4.0, 31.0})
    for (const double miss : {0.05, 0.5, 0.001})
      EXPECT_NEAR(two_sided_p(-2 * interval_factor(freedom, miss), 2, freedom), miss, 1e-9);
  EXPECT_EQ(two_sided_p(0, 0, 4), 1);
  EXPECT_EQ(two_sided_p(1, 0, 4), 0);
  EXPECT_TRUE(std::isnan(two_sided_p(1, 1, 0)));
}

TEST(interval, false_discovery_rates_are_benjamini_and_hochbergs) {
  const auto rate = false_discovery_rates({0.03, none, 0.001, 0.04, 0.9});
  EXPECT_NEAR(rate[0], 4 * 0.04 / 3, 1e-12);  // no larger than that of the next p
  EXPECT_TRUE(std::isnan(rate[1]));
  EXPECT_NEAR(rate[2], 0.004, 1e-12);
  EXPECT_NEAR(rate[3], 4 * 0.04 / 3, 1e-12);
  EXPECT_NEAR(rate[4], 0.9, 1e-12);
}

TEST(interval, of_too_few_documents_there_is_none) {
  EXPECT_TRUE(std::isnan(interval_factor(0)));
  EXPECT_TRUE(std::isnan(half_width(estimate{1})));
  EXPECT_TRUE(std::isnan(half_width(jackknife(1, {1, 2}))));
  EXPECT_NEAR(half_width(jackknife(2, {1, 2, 3})), 4.303 * std::sqrt(4.0 / 3), 1e-3);
}

TEST(shapley, sums_give_each_term_to_its_cause) {
  // 3 a + 5 b - 2 c + 7
  std::vector<double> value;
  for (unsigned set = 0; set < 8; ++set) value.push_back(7 + 3 * (set & 1) + 5 * (set >> 1 & 1) - 2.0 * (set >> 2 & 1));
  const auto found = shapley_values(value);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_DOUBLE_EQ(found[0], 3);
  EXPECT_DOUBLE_EQ(found[1], 5);
  EXPECT_DOUBLE_EQ(found[2], -2);
}

// The glove game: one left glove (cause 0) and two right ones make a pair worth 1; known values 2/3, 1/6, 1/6.
TEST(shapley, of_the_glove_game) {
  std::vector<double> value;
  for (unsigned set = 0; set < 8; ++set) value.push_back((set & 1) && (set & 6) ? 1 : 0);
  const auto found = shapley_values(value);
  EXPECT_NEAR(found[0], 2.0 / 3, 1e-15);
  EXPECT_NEAR(found[1], 1.0 / 6, 1e-15);
  EXPECT_NEAR(found[2], 1.0 / 6, 1e-15);
}

TEST(shapley, adds_up_to_all_less_none) {
  for (const std::size_t n : {0u, 1u, 2u, 4u, 6u}) {
    std::vector<double> value;
    for (std::size_t set = 0; set < std::size_t{1} << n; ++set)
      value.push_back(static_cast<double>(set * set * 37 % 101));
    const auto found = shapley_values(value);
    EXPECT_EQ(found.size(), n);
    EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), value.back() - value.front(), 1e-11) << n;
  }
  EXPECT_QKGEOM_ERROR("3 values are not one for each set", shapley_values({1, 2, 3}));
}

}  // namespace
}  // namespace qkgeom
