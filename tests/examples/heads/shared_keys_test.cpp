// SPDX-License-Identifier: MIT
#include "examples/heads/tables.hpp"
#include "qkgeom/stats/association.hpp"

#include "tests/common/testing.hpp"
#include "tests/report/hand_report.hpp"

namespace qkgeom::examples {
namespace {
using namespace test;

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

TEST(shared_keys, likeness_is_the_mean_over_pairs_of_a_layer) {
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
        std::vector<double> p, q;
        for (std::size_t b = 1; b < 10; ++b) {
          p.push_back(r.heads[i].profiles[0].buckets[b].plasticity);
          q.push_back(r.heads[j].profiles[0].buckets[b].plasticity);
          distance += std::abs(p.back() - q.back()) / 9;
        }
        sum += associate(association::pearson, p, q);
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

TEST(shared_keys, a_model_whose_heads_share_no_keys_has_no_likeness_within) {
  auto report = grouped_report(0.5);
  for (auto& h : report.heads) h.k_head = h.q_head;
  const auto r = shared_keys_of(report)[0];
  EXPECT_EQ(r.pairs_within, 0);
  EXPECT_TRUE(std::isnan(r.correlation_within.value));
  EXPECT_TRUE(std::isnan(r.correlation_difference.value));
  EXPECT_FALSE(std::isnan(r.correlation_between.value));
}

}  // namespace
}  // namespace qkgeom::examples
