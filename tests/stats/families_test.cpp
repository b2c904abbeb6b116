// SPDX-License-Identifier: MIT
#include "qkgeom/stats/families.hpp"

#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;
using columns = std::vector<double>;

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

}  // namespace
