// SPDX-License-Identifier: MIT
#include "examples/common/numbers/recovery.hpp"

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "tests/examples/common/written.hpp"
#include "tests/report/hand_report.hpp"

namespace qkgeom::examples {
namespace {
using namespace test;

/// Deciles of a profile that dips at 30-40 %, recovers at 60-70 % and falls, with documents that differ by `noise`.
double bumpy(int b, int e, double noise) {
  const double profile[] = {0.7, 0.68, 0.65, 0.50, 0.52, 0.55, 0.60, 0.58, 0.5, 0.4};
  const double sign = e % 2 ? 1 : -1;
  return profile[b] + noise * sign * (b % 2 ? 1 : -1) + 0.5 * sign * noise;
}

TEST(recovery, is_found_with_its_places_and_counts) {
  const auto report = hand_report(8, [](int h, int b, int e) {
    // Heads of layers 0 and 1 recover; the others fall steadily.
    return h < 4 ? bumpy(b, e, 0.003) : 0.9 - 0.05 * b + 0.001 * ((e + b) % 3);
  });
  const auto all = recovery(report);
  ASSERT_EQ(all.size(), 3u);
  const auto& r = all[0].layers[0].second;
  EXPECT_TRUE(r.recovers);
  EXPECT_EQ(r.dip, 3);
  EXPECT_EQ(r.peak, 6);
  EXPECT_EQ(r.end, 9);
  EXPECT_EQ(r.heads, 2);
  EXPECT_EQ(all[0].recovering_layers(), 2);
  EXPECT_EQ(all[0].recovering_heads(), 4);
  EXPECT_EQ(all[1].recovering_layers(), 1);  // layers 0 and 2 are RoPE
  EXPECT_EQ(all[0].layers.size(), 4u);
  const auto& steady = all[0].layers[3].second;
  EXPECT_FALSE(steady.recovers);
  EXPECT_EQ(steady.peak, 5);
  EXPECT_LT(steady.rise.value, 0);
}

TEST(recovery, needs_two_standard_errors_of_its_rise_and_its_fall) {
  const auto at_noise = [](double noise) {
    return recovery(hand_report(2, [noise](int, int b, int e) { return bumpy(b, e, noise); }))[0].mean;
  };
  const auto quiet = at_noise(0.003), loud = at_noise(0.12);
  EXPECT_TRUE(quiet.recovers);
  EXPECT_FALSE(loud.recovers);
  // The error by hand: documents weigh 5, 6, 7, 8; the difference of two deciles of other parity moves by 2 noise.
  const auto mean_without = [](int left_out) {
    double sum = 0, weight = 0;
    for (int e = 0; e < hand_documents; ++e) {
      if (e == left_out) continue;
      sum += (5 + e) * (bumpy(6, e, 0.003) - bumpy(3, e, 0.003));
      weight += 5 + e;
    }
    return sum / weight;
  };
  EXPECT_NEAR(quiet.rise.value, mean_without(-1), 1e-15);
  EXPECT_NEAR(quiet.rise.error, jackknife_by_hand(mean_without), 1e-15);
  EXPECT_GT(quiet.rise.error, 0.001);
  // So many errors over four documents are as sure as fewer over many: of Student's t and of a normal.
  const auto as_normal = [](const head_estimate& e) {
    const auto beyond = cdf(complement(boost::math::students_t(3), e.value / e.error));
    return quantile(complement(boost::math::normal(), beyond));
  };
  EXPECT_EQ(quiet.rise.freedom, 3);
  const double rise_alone = as_normal(quiet.rise), fall_alone = as_normal(quiet.fall);
  EXPECT_LT(rise_alone, 0.5 * quiet.rise.value / quiet.rise.error);
  const auto report = hand_report(2, [](int, int b, int e) { return bumpy(b, e, 0.003); });
  EXPECT_FALSE(recovery(report, 1.001 * std::min(rise_alone, fall_alone))[0].mean.recovers);
  EXPECT_TRUE(recovery(report, 0.999 * std::min(rise_alone, fall_alone))[0].mean.recovers);
}

TEST(recovery, is_written_for_groups_layers_and_heads) {
  const auto report = hand_report(4, [](int, int b, int e) { return bumpy(b, e, 0.003); });
  const auto found = recovery(report);
  const auto csv = written(recovery_table(report, found));
  const auto rise = csv.numbers("rise"), layers = csv.numbers("layers");
  ASSERT_EQ(rise.size(), 3u + 2u + 4u);
  EXPECT_EQ(rise[0], found[0].mean.rise.value);
  EXPECT_EQ(rise[3], found[0].layers[0].second.rise.value);
  EXPECT_EQ(rise[8], found[0].each[3].second.rise.value);
  EXPECT_EQ(layers[0], 2);
  EXPECT_TRUE(std::isnan(layers[3]));
}

TEST(recovery, is_not_sure_where_one_document_alone_has_pairs) {
  auto report = hand_report(1, [](int, int b, int) { return b == 5 ? 0.9 : b < 3 ? 0.5 : b < 8 ? 0.3 : 0.2; });
  for (auto& b : report.heads[0].profiles[0].buckets) {
    for (int e = 1; e < hand_documents; ++e) b.document_sum[e] = b.document_weight[e] = 0;
    set_mean_and_error(b);
  }
  const auto found = recovery(report)[0].mean;
  EXPECT_GT(found.rise.value, 0.5);
  EXPECT_TRUE(std::isnan(found.rise.error));
  EXPECT_FALSE(found.recovers);
}

TEST(recovery, a_profile_without_late_deciles_has_none) {
  auto report = hand_report(2, [](int, int b, int e) { return bumpy(b, e, 0.003); });
  for (auto& h : report.heads)
    for (std::size_t b = 5; b < 10; ++b) h.profiles[0].buckets[b].plasticity = std::nan("");
  const auto r = recovery(report)[0].mean;
  EXPECT_FALSE(r.recovers);
  EXPECT_EQ(r.peak, -1);
  EXPECT_TRUE(std::isnan(r.rise.value));
}

}  // namespace
}  // namespace qkgeom::examples
