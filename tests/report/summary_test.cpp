// SPDX-License-Identifier: MIT
#include "qkgeom/report/model_summary.hpp"
#include "tests/common/testing.hpp"
#include "tests/report/hand_report.hpp"

namespace {

using namespace qkgeom;

plasticity_profile_result falling() {
  test::hand_sums sums(10);
  for (std::size_t b = 0; b < 10; ++b)
    for (std::size_t e = 0; e < 3; ++e) {
      const double pairs = b == 0 ? 0 : 10.0 * static_cast<double>(b) + static_cast<double>(e);
      sums[b].emplace_back(pairs * (0.9 - 0.05 * static_cast<double>(b) + 0.01 * static_cast<double>(e)), pairs);
    }
  return test::hand_profile(sums, {9, 8, 7, 6, 5, 4, 3, 2, 1, 10}, {10, 11, 12});
}

TEST(summarize, weighs_buckets_by_their_queries) {
  const auto p = falling();
  EXPECT_TRUE(std::isnan(p.buckets[0].plasticity));
  double sum = 0, weight = 0;
  for (std::size_t b = 1; b < 10; ++b) {
    sum += static_cast<double>(p.buckets[b].queries) * p.buckets[b].plasticity;
    weight += static_cast<double>(p.buckets[b].queries);
  }
  const auto s = summarize(p, 1000);
  EXPECT_DOUBLE_EQ(s.overall.value, sum / weight);
  EXPECT_DOUBLE_EQ(s.first20.value, p.buckets[1].plasticity);
  EXPECT_DOUBLE_EQ(s.last20.value, (p.buckets[8].plasticity + 10 * p.buckets[9].plasticity) / 11);
  EXPECT_DOUBLE_EQ(s.drop.value, s.first20.value - s.last20.value);
  const auto by_width = summarize(p, 1000, bucket_weight::width);
  EXPECT_DOUBLE_EQ(by_width.last20.value, (p.buckets[8].plasticity + p.buckets[9].plasticity) / 2);
  EXPECT_THROW(summarize(p, 0), error);
}

/// Ten buckets, the first two of one document alone, the third of two of the four.
plasticity_profile_result sparse(double shift = 0) {
  test::hand_sums sums(10);
  for (std::size_t b = 0; b < 10; ++b)
    for (std::size_t e = 0; e < 4; ++e) {
      const double pairs = (b < 2 && e != 1) || (b == 2 && e > 1) ? 0 : 10;
      const double value = 0.5 + 0.03 * static_cast<double>(b % 4) + 0.01 * static_cast<double>(e * e) + shift;
      sums[b].emplace_back(pairs * value, pairs);
    }
  return test::hand_profile(sums, {9, 8, 7, 6, 5, 4, 3, 2, 1, 10}, {10, 11, 12, 13});
}

TEST(summarize, documents_without_pairs_in_a_region_have_no_say_in_its_error) {
  const auto p = sparse();
  const auto s = summarize(p, 1000);
  EXPECT_FALSE(std::isnan(s.first20.value));
  EXPECT_TRUE(std::isnan(s.first20.error)) << "one example alone has no error";
  EXPECT_GT(s.last20.error, 0);
  const auto bins = bin_means(p, equal_bins(1000, 10));
  for (std::size_t b = 0; b < 10; ++b) {
    EXPECT_EQ(std::isnan(bins[b].plasticity.error), std::isnan(p.buckets[b].standard_error)) << b;
    EXPECT_EQ(std::isnan(p.buckets[b].standard_error), b < 3) << b;  // of fewer than three documents
    if (b >= 3) {
      EXPECT_NEAR(bins[b].plasticity.error, p.buckets[b].standard_error, 1e-14) << b;
    }
  }
}

TEST(summarize, means_over_heads_have_no_error_of_one_document) {
  model_report report{"m", 1000, uniform_buckets{100}.edges(1000), {}, 0};
  for (int h = 0; h < 3; ++h) {
    head_report head;
    head.layer = 0;
    head.q_head = h;
    head.profiles = {sparse(0.02 * h * h)};
    report.heads.push_back(std::move(head));
  }
  const auto g = summarize_heads(report, {0, 1, 2});
  EXPECT_TRUE(std::isnan(g.first20.error));
  EXPECT_GT(g.last20.error, 0);
}

TEST(summarize, errors_are_the_jackknife_over_documents_by_hand) {
  const auto p = falling();
  const auto s = summarize(p, 1000);
  std::vector<double> without;
  for (std::size_t e = 0; e < 3; ++e) {
    double sum = 0, weight = 0;
    for (std::size_t f = 0; f < 3; ++f)
      if (f != e) {
        sum += p.buckets[1].document_sum[f];
        weight += p.buckets[1].document_weight[f];
      }
    without.push_back(sum / weight);
  }
  const double mean = (without[0] + without[1] + without[2]) / 3;
  double square = 0;
  for (const double v : without) square += (v - mean) * (v - mean);
  EXPECT_NEAR(s.first20.error, std::sqrt(2.0 / 3 * square), 1e-15);
  EXPECT_DOUBLE_EQ(s.first20.error, p.buckets[1].standard_error);
}

TEST(bins, a_bin_without_a_bucket_middle_is_null) {
  const auto p = falling();
  const auto bins = bin_means(p, {0, 40, 100, 200, 1000});
  EXPECT_TRUE(std::isnan(bins[0].plasticity.value));
  EXPECT_TRUE(std::isnan(bins[1].plasticity.value));  // bucket 0 has no pairs
  EXPECT_DOUBLE_EQ(bins[2].plasticity.value, p.buckets[1].plasticity);
  EXPECT_EQ(equal_bins(1000, 5), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(length_bins(1600), (std::vector<double>{0, 100, 200, 400, 800, 1600}));
}

TEST(model_summary, means_over_heads_and_their_groups) {
  model_report report{"m", 1000, uniform_buckets{100}.edges(1000), {}};
  for (int i = 0; i < 4; ++i) {
    head_report h;
    h.layer = i / 2;
    h.q_head = i % 2;
    h.rope = i < 3;
    h.profiles.push_back(falling());
    for (auto& b : h.profiles[0].buckets)
      for (double& x : b.document_sum) x *= 1 - 0.1 * i;
    for (auto& b : h.profiles[0].buckets) b.plasticity *= 1 - 0.1 * i;
    h.summaries.push_back(summarize(h.profiles[0], 1000));
    report.heads.push_back(h);
  }
  const auto groups = summarize_model(report);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "all");
  EXPECT_EQ(groups[1].name, "rope");
  EXPECT_EQ(groups[2].name, "nope");
  const double one = report.heads[0].summaries[0].overall.value;
  EXPECT_NEAR(groups[0].overall.value, one * 0.85, 1e-14);
  EXPECT_NEAR(groups[0].overall.error, report.heads[0].summaries[0].overall.error * 0.85, 1e-14);
  EXPECT_NEAR(groups[1].overall.value, one * 0.9, 1e-14);
  EXPECT_NEAR(groups[2].drop.value, report.heads[3].summaries[0].drop.value, 1e-15);
}

}  // namespace
