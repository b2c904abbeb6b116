// SPDX-License-Identifier: MIT
// Numbers over the heads of a report: how unlike they are, dips that recover, causes of a change.
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "examples/common/numbers/causes.hpp"
#include "examples/common/numbers/heterogeneity.hpp"
#include "examples/common/numbers/recovery.hpp"
#include "qkgeom/stats/quantile.hpp"
#include "qkgeom/stats/shape.hpp"
#include "tests/io/scratch.hpp"
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

/// An analysis of two heads over three documents, in which a number is `value` and, without a document, a little off.
trajectory_point point_with(double value, std::vector<head_class> classes) {
  trajectory_point p;
  p.heads = {{0, 0, true}, {0, 1, true}};
  head_values x{"x", {value, 2 * value}, {}};
  for (const double off : {-0.3, 0.1, 0.2}) x.without.push_back({value * (1 + off), 2 * value * (1 + off)});
  p.columns = {x};
  p.classes = std::move(classes);
  p.classes_without = {p.classes, p.classes, p.classes};
  return p;
}

TEST(causes, of_a_mean_add_up_with_errors_of_the_same_documents) {
  const auto mixed = head_class::mixed, content = head_class::content_focused;
  const std::vector<trajectory_point> with{point_with(1, {mixed, mixed}), point_with(2, {mixed, content}),
                                           point_with(-4, {mixed, mixed}), point_with(7, {content, content})};
  const auto split = split_by_cause(with, column_number("x"), {0, 1});
  EXPECT_DOUBLE_EQ(split.none.value, 1.5);
  EXPECT_DOUBLE_EQ(split.all.value, 10.5);
  EXPECT_DOUBLE_EQ(split.change.value, 9);
  EXPECT_DOUBLE_EQ(split.cause[0].value, 1.5 * 0.5 * ((2 - 1) + (7 + 4)));
  EXPECT_DOUBLE_EQ(split.cause[0].value + split.cause[1].value, split.change.value);
  // Every number moves by the same share without a document, so errors do as well.
  EXPECT_NEAR(split.change.error / split.change.value, split.all.error / split.all.value, 1e-12);
  EXPECT_GT(split.change.error, 0);

  const auto size = split_by_cause(with, absolute_column("x"), {0});
  EXPECT_DOUBLE_EQ(size.cause[1].value, 0.5 * ((4 - 1) + (7 - 2)));
  const auto share = split_by_cause(with, class_number(content), {0, 1});
  EXPECT_DOUBLE_EQ(share.change.value, 1);
  EXPECT_DOUBLE_EQ(share.cause[0].value, 0.5 * (0.5 + 1));
}

TEST(causes, of_analyses_of_other_documents_have_no_errors) {
  auto other = point_with(3, {head_class::mixed, head_class::mixed});
  other.blocks.document = {1, 2};
  const auto split = split_by_cause({point_with(1, other.classes), other}, column_number("x"), {0});
  EXPECT_DOUBLE_EQ(split.change.value, 2);
  EXPECT_TRUE(std::isnan(split.change.error));
  other.heads[1].q_head = 5;
  EXPECT_QKGEOM_ERROR("other heads", split_by_cause({point_with(1, other.classes), other}, column_number("x"), {0}));
}

}  // namespace
}  // namespace qkgeom::examples
