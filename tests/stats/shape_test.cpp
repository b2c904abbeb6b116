// SPDX-License-Identifier: MIT
#include "qkgeom/stats/shape.hpp"

#include "qkgeom/stats/quantile.hpp"
#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;

TEST(sample_shape, equals_scipy) {  // tests/data/make_sample_shapes.py
  const auto all = test::json_data("sample-shapes.json");
  ASSERT_EQ(all.size(), 5u);
  for (const auto& s : all) {
    SCOPED_TRACE(s.at("name").get<std::string>());
    const auto x = s.at("values").get<std::vector<double>>();
    const auto shape = shape_of(x);
    const auto close = [&](double got, const char* what) {
      const double want = s.at(what);
      EXPECT_NEAR(got, want, 1e-12 * (1 + std::abs(want))) << what;
    };
    close(shape.mean, "mean");
    close(shape.deviation, "deviation");
    close(shape.skewness, "skewness");
    close(shape.kurtosis, "kurtosis");
    close(shape.bimodality, "bimodality");
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(quantile(x, 0.25 * static_cast<double>(i + 1)), s.at("quartiles")[i].get<double>(), 1e-15);
  }
}

TEST(sample_shape, clusters_are_told_from_one_heap) {
  std::vector<double> even, ends;
  for (int i = 0; i < 100000; ++i) {
    even.push_back(i);
    ends.push_back(i % 2);
  }
  EXPECT_NEAR(shape_of(even).bimodality, 5.0 / 9, 1e-4);
  EXPECT_NEAR(shape_of(ends).bimodality, 1, 1e-4);
}

TEST(sample_shape, too_few_or_equal_values_have_none) {
  EXPECT_TRUE(std::isnan(shape_of({}).mean));
  EXPECT_TRUE(std::isnan(shape_of({1}).deviation));
  EXPECT_EQ(shape_of({1, 3}).deviation, std::sqrt(2.0));
  EXPECT_TRUE(std::isnan(shape_of({1, 3}).skewness));
  EXPECT_TRUE(std::isnan(shape_of({1, 3, 4}).bimodality));
  EXPECT_FALSE(std::isnan(shape_of({1, 3, 4}).skewness));
  EXPECT_NEAR(shape_of({0.1, 0.1, 0.1, 0.1, 0.1}).deviation, 0, 1e-16);
  EXPECT_TRUE(std::isnan(shape_of({0.1, 0.1, 0.1, 0.1, 0.1}).bimodality));
  for (const double v : {0.1, 0.7, 1.0}) {
    const auto many = shape_of(std::vector<double>(300, v));
    EXPECT_EQ(many.mean, v);
    EXPECT_EQ(many.deviation, 0);
    EXPECT_TRUE(std::isnan(many.skewness) && std::isnan(many.kurtosis) && std::isnan(many.bimodality));
  }
}

TEST(quantile, known_values) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.25), 1.75);  // numpy.quantile
  EXPECT_DOUBLE_EQ(quantile({4, std::nan(""), 3}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.3), 7);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(quantile, a_share_outside_0_to_1_is_refused) {
  EXPECT_EQ(quantile({1, 2, 3}, 1), 3);
  for (const double share : {-0.1, 1.01, std::nan("")})
    EXPECT_QKGEOM_ERROR("quantile: the share", quantile({1, 2, 3}, share));
}

}  // namespace
