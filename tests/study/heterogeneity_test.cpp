// SPDX-License-Identifier: MIT
#include "qkgeom/study/heterogeneity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "qkgeom/report/model_heatmap.hpp"
#include "qkgeom/study/recovery.hpp"
#include "qkgeom/study/shared_keys.hpp"

namespace {

using namespace qkgeom;

constexpr int buckets = 10, documents = 4;

/// Ten buckets of a hundred tokens; document e of head h has `value(h, b, e)` in bucket b over 5 + e pairs, `left_out`
/// excepted.
model_report hand_report(int heads, const std::function<double(int, int, int)>& value, int left_out = -1) {
  model_report report{"m", 1000, uniform_buckets{100}.edges(1000), {}};
  for (int h = 0; h < heads; ++h) {
    head_report head;
    head.layer = h / 2;
    head.q_head = h % 2;
    head.rope = h % 4 < 2;
    plasticity_profile_result p{"diagonal", false, {}, {}, {}};
    for (int e = 0; e < documents; ++e)
      if (e != left_out) p.documents.push_back(20 + e);
    for (int b = 0; b < buckets; ++b) {
      profile_bucket out;
      out.start = 100 * b;
      out.end = out.start + 100;
      out.queries = 7 + b;
      for (int e = 0; e < documents; ++e) {
        if (e == left_out) continue;
        const double pairs = b == 0 ? 0 : 5.0 + e;
        out.document_sum.push_back(pairs * value(h, b, e));
        out.document_weight.push_back(pairs);
        out.pairs += static_cast<std::int64_t>(pairs);
      }
      set_mean_and_error(out);
      p.buckets.push_back(std::move(out));
    }
    head.summaries.push_back(summarize(p, 1000));
    head.profiles.push_back(std::move(p));
    report.heads.push_back(std::move(head));
  }
  return report;
}

double scattered(int h, int b, int e) {
  return 0.5 + 0.4 * std::sin(1.7 * h) * (1 - 0.08 * b) + 0.02 * std::cos(3.0 * h + 2.0 * e + b);
}

double jackknife_by_hand(const std::function<double(int)>& without) {
  double mean = 0, square = 0;
  for (int e = 0; e < documents; ++e) mean += without(e) / documents;
  for (int e = 0; e < documents; ++e) square += (without(e) - mean) * (without(e) - mean);
  return std::sqrt(square * (documents - 1) / documents);
}

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
  for (int e = 0; e < documents; ++e) less.push_back(heterogeneity(hand_report(8, scattered, e))[0]);
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
    for (int e = 0; e < documents; ++e) {
      if (e == left_out) continue;
      sum += (5 + e) * (bumpy(6, e, 0.003) - bumpy(3, e, 0.003));
      weight += 5 + e;
    }
    return sum / weight;
  };
  EXPECT_NEAR(quiet.rise.value, mean_without(-1), 1e-15);
  EXPECT_NEAR(quiet.rise.error, jackknife_by_hand(mean_without), 1e-15);
  EXPECT_GT(quiet.rise.error, 0.001);
  const double rise_alone = quiet.rise.value / quiet.rise.error, fall_alone = quiet.fall.value / quiet.fall.error;
  const auto report = hand_report(2, [](int, int b, int e) { return bumpy(b, e, 0.003); });
  EXPECT_FALSE(recovery(report, {.errors = 1.001 * std::min(rise_alone, fall_alone)})[0].mean.recovers);
  EXPECT_TRUE(recovery(report, {.errors = 0.999 * std::min(rise_alone, fall_alone)})[0].mean.recovers);
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

TEST(model_heatmap, is_the_mean_of_head_means_with_enough_pairs) {
  auto report = hand_report(3, scattered);
  for (std::size_t h = 0; h < 3; ++h) {
    auto& map = report.heads[h].profiles[0].heatmap;
    map.cell = 50;
    map.width = 2;
    map.weight = {100, 40, 5, 0};
    map.sum = {100 * (0.2 + 0.1 * static_cast<double>(h)), 40 * 0.5, 5 * 0.9, 0};
  }
  report.heads[2].profiles[0].heatmap.weight[1] = 10;  // too few pairs: its mean of 2 does not count
  const auto m = model_heatmaps(report)[0];
  EXPECT_EQ(m.cell, 50);
  EXPECT_NEAR(m.plasticity[0], 0.3, 1e-15);
  EXPECT_NEAR(m.head_error[0], 0.1 / std::sqrt(3.0), 1e-15);
  EXPECT_EQ(m.heads, (std::vector<index_t>{3, 2, 0, 0}));
  EXPECT_DOUBLE_EQ(m.plasticity[1], 0.5);
  EXPECT_EQ(m.pairs[1], 80);
  EXPECT_TRUE(std::isnan(m.plasticity[2]));
  EXPECT_NEAR(model_heatmaps(report, {.least_pairs = 5})[0].plasticity[2], 0.9, 1e-15);
  report.heads[1].profiles[0].heatmap.cell = 60;
  EXPECT_THROW(model_heatmaps(report), error);
  EXPECT_THROW(model_heatmaps(report, {.least_pairs = 0}), error);
}

/// Eight heads, two layers of four; heads 2 i and 2 i + 1 share a key head, and a profile where `shared` says so.
model_report grouped_report(double shared, int left_out = -1) {
  auto report = hand_report(
      8,
      [&](int h, int b, int e) {
        const double own = std::sin(1.3 * h * b + b * b), common = std::sin(2.1 * (h / 2) + 1.1 * b * b);
        return 0.5 + 0.2 * (shared * common + (1 - shared) * own) + 0.01 * std::cos(5.0 * e * b + h);
      },
      left_out);
  for (int h = 0; h < 8; ++h) {
    auto& head = report.heads[h];
    head.layer = h / 4;
    head.q_head = h % 4;
    head.k_head = h % 4 / 2;
    head.rope = true;
  }
  return report;
}

TEST(keys_by_document, likeness_is_the_mean_over_pairs_of_a_layer) {
  const auto report = grouped_report(0.6);
  const auto all = shared_keys_of(report);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].pairs_within, 4);
  EXPECT_EQ(all[0].pairs_between, 8);
  const auto by_hand = [](const model_report& r, bool same) {
    double sum = 0, distance = 0, pairs = 0;
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t j = i + 1; j < 8; ++j) {
        if (i / 4 != j / 4 || (i / 2 == j / 2) != same) continue;
        double x = 0, y = 0, xx = 0, yy = 0, xy = 0, apart = 0;
        for (std::size_t b = 1; b < 10; ++b) {
          const double p = r.heads[i].profiles[0].buckets[b].plasticity,
                       q = r.heads[j].profiles[0].buckets[b].plasticity;
          x += p / 9, y += q / 9, xx += p * p / 9, yy += q * q / 9, xy += p * q / 9, apart += std::abs(p - q) / 9;
        }
        sum += (xy - x * y) / std::sqrt((xx - x * x) * (yy - y * y));
        distance += apart;
        ++pairs;
      }
    return std::pair(sum / pairs, distance / pairs);
  };
  const auto within = by_hand(report, true), between = by_hand(report, false);
  EXPECT_NEAR(all[0].correlation_within.value, within.first, 1e-12);
  EXPECT_NEAR(all[0].correlation_between.value, between.first, 1e-12);
  EXPECT_NEAR(all[0].correlation_difference.value, within.first - between.first, 1e-12);
  EXPECT_NEAR(all[0].distance_within.value, within.second, 1e-12);
  EXPECT_NEAR(all[0].distance_difference.value, within.second - between.second, 1e-12);
  EXPECT_NEAR(all[0].correlation_difference.error, jackknife_by_hand([&](int e) {
                const auto r = grouped_report(0.6, e);
                return by_hand(r, true).first - by_hand(r, false).first;
              }),
              1e-12);
  const auto alike = shared_keys_of(grouped_report(1))[0];
  EXPECT_GT(alike.correlation_within.value, 0.95);
  EXPECT_LT(alike.correlation_between.value, 0.8);
}

TEST(keys_by_document, a_model_whose_heads_share_no_keys_has_no_likeness_within) {
  auto report = grouped_report(0.5);
  for (auto& h : report.heads) h.k_head = h.q_head;
  const auto r = shared_keys_of(report)[0];
  EXPECT_EQ(r.pairs_within, 0);
  EXPECT_TRUE(std::isnan(r.correlation_within.value));
  EXPECT_TRUE(std::isnan(r.correlation_difference.value));
  EXPECT_FALSE(std::isnan(r.correlation_between.value));
}

}  // namespace
