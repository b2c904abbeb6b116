// SPDX-License-Identifier: MIT
#include "qkgeom/stats/association.hpp"

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

}  // namespace
