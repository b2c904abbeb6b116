// SPDX-License-Identifier: MIT
#include "qkgeom/plasticity/score_checks.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

planted_head normal_head() { return {.dim = 8, .context_length = 1024, .documents = 6, .rows = 160, .seed = 2}; }

keys_by_document two_groups() {
  keys_by_document g;
  g.position = {1, 3, 5, 7, 9, 2, 4, 6, 8};
  g.row = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  g.offset = {0, 5, 9};
  g.document = {0, 1};
  return g;
}

TEST(drawn_pairs, are_all_admissible_pairs_where_they_are_few) {
  const auto groups = two_groups();
  const auto pairs = detail::drawn_pairs(groups, admitting(8, 10, 8), 100, {.seed = 1});
  // Positions in (2, 8): 3, 5, 7 of the first group, 4, 6 of the second.
  EXPECT_EQ(pairs, (std::vector<std::pair<index_t, index_t>>{{1, 2}, {1, 3}, {2, 3}, {6, 7}}));
  EXPECT_TRUE(detail::drawn_pairs(groups, admitting(0, 0, {}), 100, {.seed = 1}).empty());
}

TEST(drawn_pairs, come_equally_often) {
  const auto groups = two_groups();  // 10 + 6 pairs
  std::map<std::pair<index_t, index_t>, int> seen;
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    for (const auto& p : detail::drawn_pairs(groups, admitting(100, 100, {}), 8, {.seed = seed})) ++seen[p];
  EXPECT_EQ(seen.size(), 16u);
  double chi2 = 0;
  for (const auto& [pair, n] : seen) {
    EXPECT_LT(pair.first, pair.second);
    chi2 += (n - 1000.0) * (n - 1000.0) / 1000.0;
  }
  EXPECT_LT(chi2, 40);  // 15 degrees of freedom: the 99.95 % point
}

TEST(score_checks, find_scores_of_normal_queries_normal) {
  const auto rows = plant<float>(normal_head());
  const auto r = score_checks(ctx, rows.view(), uniform_buckets{128}, 1024);
  ASSERT_EQ(r.bucket.size(), 8u);
  EXPECT_EQ(r.bucket[0].samples, 0);
  EXPECT_TRUE(std::isnan(r.bucket[0].ks_p));
  EXPECT_EQ(r.bucket[5].samples, 64);
  EXPECT_EQ(r.all.samples, 7 * 64);
  EXPECT_LT(r.all.abs_skewness, 2 * std::sqrt(6 / 120.0));
  EXPECT_GT(r.all.ks_p, 0.3);
  EXPECT_LT(r.all.share_below_alpha, 0.02);
}

TEST(score_checks, equal_their_definition) {
  const auto rows = plant<double>(normal_head());
  const auto head = rows.view();
  const auto r = score_checks(ctx, head, edge_buckets{{0, 24, 1024}}, 0, {.pairs = 100000});
  std::vector<normality> want;
  for (index_t j = 0; j < head.k.rows; ++j)
    for (index_t i = 0; i < j; ++i) {
      if (head.k_document[i] != head.k_document[j] || head.k_position[i] >= 24 || head.k_position[j] >= 24) continue;
      std::vector<double> score;
      for (index_t q = 0; q < head.q.rows; ++q) {
        if (head.q_position[q] < 24) continue;
        score.push_back(0);
        for (index_t c = 0; c < 8; ++c) score.back() += head.q(q, c) * (head.k(i, c) - head.k(j, c));
      }
      want.push_back(check_normality(score));
    }
  const auto m = medians(want, 0.01);
  ASSERT_GT(m.samples, 10);
  EXPECT_EQ(r.all.samples, m.samples);
  EXPECT_NEAR(r.all.abs_skewness, m.abs_skewness, 1e-12);
  EXPECT_NEAR(r.all.abs_kurtosis, m.abs_kurtosis, 1e-12);
  EXPECT_NEAR(r.all.ks_distance, m.ks_distance, 1e-12);
  EXPECT_NEAR(r.all.ks_p, m.ks_p, 1e-9);
}

TEST(score_checks, leave_thin_buckets_and_far_keys_out) {
  const auto rows = plant<double>(normal_head());
  auto head = rows.view();
  const auto all = score_checks(ctx, head, uniform_buckets{128}, 1024, {.min_queries = 1000});
  EXPECT_EQ(all.all.samples, 0);
  head.window = 65;  // from the middle of a bucket to just before its start: nothing but one position
  EXPECT_LE(score_checks(ctx, head, uniform_buckets{128}, 1024).all.samples, 7);
}

}  // namespace
