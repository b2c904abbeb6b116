// SPDX-License-Identifier: MIT
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/families.hpp"
#include "qkgeom/stats/resampling.hpp"
#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;
using columns = std::vector<double>;

constexpr association kinds[] = {association::pearson, association::spearman, association::kendall};

TEST(association, equals_scipy_with_exact_p) {
  const auto all = test::json_data("associations.json");
  int with_p = 0, with_interval = 0;
  for (const auto& pair : all.at("pairs")) {
    SCOPED_TRACE(pair.at("name").get<std::string>());
    const auto x = pair.at("x").get<columns>(), y = pair.at("y").get<columns>();
    for (const auto kind : kinds) {
      const std::string name(name_of(kind));
      SCOPED_TRACE(name);
      EXPECT_NEAR(associate(kind, x, y), pair.at(name).get<double>(), 1e-14);
      if (pair.contains(name + "_p")) {
        const auto t = test_association(kind, x, y);
        EXPECT_TRUE(t.exact);
        EXPECT_EQ(t.standard_error, 0);
        EXPECT_NEAR(t.p, pair.at(name + "_p").get<double>(), 1e-14);
        ++with_p;
      }
      if (pair.contains(name + "_interval")) {
        const auto b = bootstrap_association(kind, x, y, {.draws = 20000, .seed = 3});
        EXPECT_NEAR(b.low, pair.at(name + "_interval")[0].get<double>(), 0.02);
        EXPECT_NEAR(b.high, pair.at(name + "_interval")[1].get<double>(), 0.02);
        EXPECT_EQ(b.without_value, 0u);
        ++with_interval;
      }
    }
  }
  EXPECT_EQ(with_p, 9);
  EXPECT_EQ(with_interval, 2);
}

TEST(association, has_no_value_without_variance_and_says_what_is_wrong) {
  for (const auto kind : kinds) {
    EXPECT_TRUE(std::isnan(associate(kind, {0.1, 0.1, 0.1}, {1, 2, 3})));
    EXPECT_TRUE(std::isnan(associate(kind, {}, {})));
    EXPECT_TRUE(std::isnan(test_association(kind, {1, 2, 3}, {0.7, 0.7, 0.7}).p));
    EXPECT_THROW(associate(kind, {1, 2}, {1}), error);
    EXPECT_THROW(associate(kind, {1, NAN}, {1, 2}), error);
  }
  EXPECT_EQ(mid_ranks({3, 1, 3, 2}), (columns{3.5, 1, 3.5, 2}));
}

TEST(association, what_a_third_column_explains_is_taken_out) {
  const columns z{1, 2, 3, 4, 5, 6}, e{0.1, -0.2, 0.1, 0.1, -0.2, 0.1};
  columns x = z, y = z;
  for (std::size_t i = 0; i < z.size(); ++i) x[i] += e[i], y[i] -= e[i];
  EXPECT_GT(associate(association::pearson, x, y), 0.98);
  EXPECT_NEAR(partial_association(association::pearson, x, y, z), -1, 0.05);
  EXPECT_TRUE(std::isnan(partial_association(association::spearman, z, y, z)));
}

TEST(line, equals_scipy_and_is_less_sure_far_away) {
  const auto all = test::json_data("associations.json");
  const auto line = fit_line(all["pairs"][3]["x"].get<columns>(), all["pairs"][3]["y"].get<columns>());
  EXPECT_NEAR(line.slope, all["line"][0].get<double>(), 1e-13);
  EXPECT_NEAR(line.intercept, all["line"][1].get<double>(), 1e-13);
  EXPECT_GT(line.prediction_error(5), line.prediction_error(line.mean_x));
  EXPECT_NEAR(line.prediction_error(line.mean_x), line.deviation * std::sqrt(1 + 1.0 / 20), 1e-14);
  EXPECT_THROW(fit_line({1, 1, 1}, {1, 2, 3}), error);
  EXPECT_THROW(fit_line({1, 2}, {1, 2}), error);
  EXPECT_THROW(fit_line({1, 2, 3}, {1, 2, 3, 4}), error);
}

TEST(families, rounding_is_no_variance) {
  for (const double a : {0.1, 0.7, 1.1, 2.3})
    for (const double b : {0.3, 1.7}) {
      const columns x{a, a, a, b, b, b}, y{0.9, 0.1, 0.5, 0.8, 0.3, 0.7};
      const auto d = decompose_by_family(x, y, {"f", "f", "f", "g", "g", "g"});
      EXPECT_TRUE(std::isnan(d.within.correlation) && std::isnan(d.within.slope)) << a << ' ' << b;
      EXPECT_FALSE(d.reverses());
      for (const auto& f : d.families) EXPECT_TRUE(std::isnan(f.inside.slope));
      EXPECT_FALSE(std::isnan(d.pooled.slope));
    }
  EXPECT_THROW(fit_line(columns(6, 0.1), {1, 2, 3, 4, 5, 6}), error);
  EXPECT_THROW(separate_families({3, 4, 1, 2}, {"a", "a", "c", "c"}, {"a", "b", "c"}), error);
}

TEST(families, parts_equal_scipy_and_show_the_reversal) {
  const auto f = test::json_data("associations.json").at("families");
  const auto x = f.at("x").get<columns>(), y = f.at("y").get<columns>();
  const auto family = f.at("family").get<std::vector<std::string>>();
  const auto d = decompose_by_family(x, y, family);
  const auto equal = [&](const slope_and_correlation& got, const char* what) {
    EXPECT_NEAR(got.correlation, f.at(what)[0].get<double>(), 1e-13) << what;
    EXPECT_NEAR(got.slope, f.at(what)[1].get<double>(), 1e-12) << what;
  };
  equal(d.pooled, "pooled");
  equal(d.within, "within");
  equal(d.between, "between");
  EXPECT_EQ(d.within.n, 7u);
  EXPECT_TRUE(d.reverses());
  ASSERT_EQ(d.families.size(), 3u);
  EXPECT_TRUE(std::isnan(d.families[2].inside.correlation));

  const auto s = separate_families(x, family, {"a", "b", "c"});
  EXPECT_EQ(s.in_order, f.at("in_order").get<double>());
  EXPECT_EQ(s.order.arrangements, f.at("arrangements").get<std::size_t>());
  EXPECT_NEAR(s.order.p, f.at("order_p").get<double>(), 1e-14);
  EXPECT_NEAR(s.variance.estimate, f.at("variance").get<double>(), 1e-13);
  EXPECT_NEAR(s.variance.p, f.at("variance_p").get<double>(), 1e-14);
  EXPECT_TRUE(s.means_in_order);
  EXPECT_FALSE(s.overlap);
  const auto backwards = separate_families(x, family, {"c", "b", "a"});
  EXPECT_EQ(backwards.in_order, 0);
  EXPECT_EQ(backwards.order.p, 1);
  EXPECT_TRUE(backwards.overlap);
  EXPECT_THROW(separate_families(x, family, {"a", "b"}), error);

  const auto r = rank_agreement(x, y, family);
  EXPECT_EQ(r.pairs, 3u);
  EXPECT_EQ(r.agree, 3u);
  EXPECT_DOUBLE_EQ(r.means.p, 2.0 / 6);  // the smallest p of three families
  EXPECT_EQ(r.row_pairs, 19u);
}

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
