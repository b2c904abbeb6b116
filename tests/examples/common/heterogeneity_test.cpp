// SPDX-License-Identifier: MIT
#include "examples/common/numbers/heterogeneity.hpp"

#include "qkgeom/stats/quantile.hpp"
#include "qkgeom/stats/shape.hpp"
#include "tests/examples/common/written.hpp"
#include "tests/report/hand_report.hpp"

namespace qkgeom::examples {
namespace {
using namespace test;

TEST(heterogeneity, each_number_is_that_of_the_heads_values) {
  const auto report = hand_report(8, scattered);
  const auto all = heterogeneity(report);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].group, "rope");
  const std::vector<std::vector<std::size_t>> groups{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 4, 5}, {2, 3, 6, 7}};
  for (std::size_t g = 0; g < 3; ++g) {
    ASSERT_EQ(all[g].buckets.size(), 10u);
    EXPECT_EQ(all[g].buckets[0].heads, 0);
    EXPECT_TRUE(std::isnan(all[g].buckets[0].mean.value));
    EXPECT_TRUE(std::isnan(all[g].buckets[0].share_low.value));
    for (std::size_t b = 1; b < 10; ++b) {
      std::vector<double> x;
      double high = 0, low = 0;
      for (const std::size_t h : groups[g]) {
        x.push_back(report.heads[h].profiles[0].buckets[b].plasticity);
        high += x.back() > 0.8;
        low += x.back() < 0.3;
      }
      const auto n = static_cast<double>(x.size());
      const auto& s = all[g].buckets[b];
      EXPECT_EQ(s.start, 100.0 * static_cast<double>(b));
      EXPECT_EQ(s.heads, static_cast<index_t>(x.size()));
      EXPECT_NEAR(s.mean.value, shape_of(x).mean, 1e-15);
      EXPECT_NEAR(s.mean.head_error, shape_of(x).deviation / std::sqrt(n), 1e-14);
      EXPECT_NEAR(s.deviation.value, shape_of(x).deviation, 1e-15);
      EXPECT_NEAR(s.bimodality.value, shape_of(x).bimodality, 1e-12);
      EXPECT_NEAR(s.quartile1.value, quantile(x, 0.25), 1e-15);
      EXPECT_NEAR(s.median.value, quantile(x, 0.5), 1e-15);
      EXPECT_NEAR(s.quartile3.value, quantile(x, 0.75), 1e-15);
      EXPECT_EQ(s.share_high.value, high / n);
      EXPECT_EQ(s.share_low.value, low / n);
    }
  }
  double some = 0;
  for (const auto& b : all[0].buckets) some += b.share_high.value > 0 && b.share_low.value > 0;
  EXPECT_GT(some, 2);
}

TEST(heterogeneity, convergence_and_errors_are_those_of_reports_without_a_document) {
  const auto whole = heterogeneity(hand_report(8, scattered))[0];
  std::vector<heterogeneity_result> less;
  for (int e = 0; e < hand_documents; ++e) less.push_back(heterogeneity(hand_report(8, scattered, e))[0]);
  const auto error_of = [&](auto&& part) { return jackknife_by_hand([&](int e) { return part(less[e]).value; }); };
  const auto check = [&](auto&& part) { EXPECT_NEAR(part(whole).error, error_of(part), 1e-12); };
  check([](const auto& r) { return r.buckets[4].mean; });
  check([](const auto& r) { return r.buckets[4].deviation; });
  check([](const auto& r) { return r.buckets[4].bimodality; });
  check([](const auto& r) { return r.buckets[7].median; });
  check([](const auto& r) { return r.buckets[7].quartile3; });
  check([](const auto& r) { return r.last20.deviation; });
  check([](const auto& r) { return r.convergence; });
  EXPECT_GT(whole.convergence.error, 0);
  EXPECT_DOUBLE_EQ(whole.convergence.value, whole.last20.deviation.value / whole.first20.deviation.value);
  EXPECT_NEAR(whole.convergence.value, 0.32 / 0.92, 0.05);  // the planted scatter shrinks by 8 % of itself a bucket
  EXPECT_TRUE(std::isnan(whole.buckets[1].median.head_error));
}

TEST(heterogeneity, is_written_for_buckets_and_regions) {
  const auto all = heterogeneity(hand_report(8, scattered));
  const auto csv = written(heterogeneity_table(all));
  const auto mean = csv.numbers("mean"), convergence = csv.numbers("convergence");
  ASSERT_EQ(mean.size(), 3u * 12u);  // ten buckets and two regions
  EXPECT_EQ(mean[5], all[0].buckets[5].mean.value);
  EXPECT_EQ(convergence[11], all[0].convergence.value);
  EXPECT_TRUE(std::isnan(convergence[10]));
}

}  // namespace
}  // namespace qkgeom::examples
