// SPDX-License-Identifier: MIT
#include "qkgeom/stats/resampling.hpp"

#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;
using columns = std::vector<double>;

TEST(resampling, drawn_orders_agree_with_all_orders_within_the_error_they_state) {
  const auto pair = test::json_data("associations.json").at("pairs")[1];
  const auto x = pair.at("x").get<columns>(), y = pair.at("y").get<columns>();
  const permutation_options few{.max_exact = 719, .draws = 20000, .seed = 11};
  const auto t = test_association(association::spearman, x, y, few),
             again = test_association(association::spearman, x, y, few);
  EXPECT_FALSE(t.exact);
  EXPECT_EQ(t.arrangements, 20000u);
  EXPECT_NEAR(t.standard_error, std::sqrt(t.p * (1 - t.p) / 20000), 1e-12);
  EXPECT_NEAR(t.p, pair.at("spearman_p").get<double>(), 4 * t.standard_error);
  EXPECT_EQ(t.p, again.p);
  EXPECT_NE(t.p, test_association(association::spearman, x, y, {.max_exact = 719, .draws = 20000, .seed = 12}).p);
  EXPECT_TRUE(test_association(association::spearman, x, y, {.max_exact = 720}).exact);
}

TEST(resampling, equal_values_make_fewer_arrangements) {
  const std::vector<int> labels{1, 0, 0, 0, 0, 0,
                                0, 0, 0, 0, 0, 1};  // 12 over 2 = 66, one of which spreads them so far
  const auto spread = [](const std::vector<int>& l) {
    const auto first = std::find(l.begin(), l.end(), 1);
    return static_cast<double>(std::find(first + 1, l.end(), 1) - first);
  };
  const auto t = permute(labels, false, {}, spread);
  EXPECT_TRUE(t.exact);
  EXPECT_EQ(t.arrangements, 66u);
  EXPECT_DOUBLE_EQ(t.p, 1.0 / 66);
}

TEST(resampling, leaving_a_row_out_names_the_row) {
  const columns x{1, 2, 3, 4, 10}, y{1, 2, 3, 4, -5};  // the last row alone makes the correlation negative
  const auto range = leave_one_out(association::pearson, x, y);
  EXPECT_EQ(range.high_without, 4u);
  EXPECT_DOUBLE_EQ(range.high, 1);
  EXPECT_LT(range.low, -0.9);
  const auto none = leave_one_out(association::pearson, {2, 2, 2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(std::isnan(none.low) && std::isnan(none.high));
}

TEST(resampling, a_better_predictor_is_told_only_when_the_rows_say_so) {
  columns y, good, bad;
  for (int i = 0; i < 12; ++i) {
    y.push_back(i);
    good.push_back(-i + (i % 2) * 0.5);
    bad.push_back((i * 5) % 12);
  }
  const auto c = compare_predictors(association::spearman, good, bad, y);
  EXPECT_NEAR(c.difference, std::abs(c.first) - std::abs(c.second), 1e-15);
  EXPECT_EQ(c.by_swap.arrangements, 4096u);
  EXPECT_LT(c.by_swap.p, 0.02);
  EXPECT_LT(c.by_order.p, 0.05);
  EXPECT_GT(c.interval.low, 0);
  const auto same = compare_predictors(association::pearson, good, good, y);
  EXPECT_EQ(same.difference, 0);
  EXPECT_EQ(same.by_swap.p, 1);
  EXPECT_EQ(same.by_order.p, 1);
}

/// The swap by its definition: predictors as z values that go up with y, every subset of the rows swapped once.
TEST(resampling, swapped_columns_are_all_subsets_of_the_rows) {
  const columns y{1, 4, 2, 7, 5, 9}, first{2, 3.5, 1, 6, 7, 5.5}, second{-2, -1, -4, -3, -6, -5};
  const auto z_values = [](columns x, double sign) {
    double mean = 0, square = 0;
    for (const double v : x) mean += v / 6;
    for (const double v : x) square += (v - mean) * (v - mean) / 6;
    for (double& v : x) v = sign * (v - mean) / std::sqrt(square);
    return x;
  };
  const columns u = z_values(first, 1), v = z_values(second, -1);
  const auto difference = [&](unsigned rows) {
    columns p = u, q = v;
    for (std::size_t i = 0; i < 6; ++i)
      if ((rows >> i & 1) != 0) std::swap(p[i], q[i]);
    return associate(association::pearson, p, y) - associate(association::pearson, q, y);
  };
  int as_far = 0;
  for (unsigned rows = 0; rows < 64; ++rows) as_far += std::abs(difference(rows)) >= difference(0) - 1e-10;
  const auto c = compare_predictors(association::pearson, first, second, y);
  EXPECT_TRUE(c.by_swap.exact);
  EXPECT_EQ(c.by_swap.arrangements, 64u);
  EXPECT_GT(as_far, 2);
  EXPECT_LT(as_far, 32);
  EXPECT_DOUBLE_EQ(c.by_swap.p, as_far / 64.0);
  EXPECT_THROW(compare_predictors(association::pearson, first, columns(6, 0.3), y), error);
  EXPECT_THROW(compare_predictors(association::kendall, first, second, y), error);
}

}  // namespace
