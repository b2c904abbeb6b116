// SPDX-License-Identifier: MIT
// Pair sets of the caller's and sampled pairs against every pair written out.
#include "qkgeom/plasticity/pair_sets.hpp"

#include "tests/backend/compared_contexts.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace {

using namespace qkgeom;
using test::ctx;
using test::oracle_mean;
using test::oracle_pair;
using test::planted_case;

class groups_of : public testing::TestWithParam<std::pair<index_t, index_t>> {};
INSTANTIATE_TEST_SUITE_P(documents_and_keys, groups_of,
                         testing::Values(std::pair<index_t, index_t>{6, 20}, std::pair<index_t, index_t>{3, 90}));

TEST_P(groups_of, weighted_pairs_equal_brute_force) {
  const test::odd_weight odd;
  const planted_case c(5, GetParam().first, GetParam().second);
  for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint})
    for (const bool across : {false, true}) {
      const auto model = c.model(kind);
      const auto got =
          plasticity_profile(ctx, model, c.rows.view(), weighted_pairs{.weight_of = odd, .across_documents = across},
                             {.heatmap = true, .precision = pair_precision::f64});
      std::map<index_t, oracle_mean> want;
      double heat = 0, got_heat = 0;
      test::for_each_pair(model, c.rows.view(), across, {}, [&](const oracle_pair& p) {
        want[p.bucket].add(p.group, p.value[0], odd(p.keys));
        heat += p.value[0] * odd(p.keys);
      });
      ASSERT_GE(want.size(), 5u);
      for (const auto& [b, w] : want) {
        const auto& bucket = got.buckets[b];
        EXPECT_NEAR(bucket.plasticity, w.mean(), 1e-12);
        EXPECT_EQ(bucket.pairs, w.pairs);
        if (across || w.by_document.size() < 3) continue;
        EXPECT_NEAR(bucket.standard_error, w.jackknife(), 1e-12);
      }
      for (const double x : got.heatmap.sum) got_heat += x;
      EXPECT_NEAR(got_heat, heat, 1e-12 * heat);
    }
}

TEST(pair_sets, an_infinite_weight_no_weight_and_one_draw_are_refused) {
  const planted_case c(4, 3, 20);
  const auto model = c.model();
  EXPECT_THROW(plasticity_profile(ctx, model, c.rows.view(), [](const key_pair&) { return HUGE_VAL; }), error);
  EXPECT_THROW(plasticity_profile(ctx, model, c.rows.view(), weighted_pairs{}), error);
  EXPECT_THROW(plasticity_profile(ctx, model, c.rows.view(), sampled{.n = 1}), error);
}

TEST(sampled, takes_each_pair_once_where_there_are_no_more_than_n) {
  const planted_case c(5, 4, 25);
  for (const auto kind : all_covariance_kinds) {
    const auto model = c.model(kind);
    const profile_options options{.heatmap = true, .precision = pair_precision::f64};
    const auto all = plasticity_profile(ctx, model, c.rows.view(), all_pairs{}, options);
    const auto got = plasticity_profile(ctx, model, c.rows.view(), sampled{.n = 1 << 20}, options);
    for (std::size_t b = 1; b < all.buckets.size(); ++b) {
      EXPECT_NEAR(got.buckets[b].plasticity, all.buckets[b].plasticity, 1e-12);
      EXPECT_NEAR(got.buckets[b].standard_error, all.buckets[b].standard_error, 1e-12);
      EXPECT_EQ(got.buckets[b].pairs, all.buckets[b].pairs);
      EXPECT_EQ(got.buckets[b].drawn, 0);
      EXPECT_EQ(got.buckets[b].sampling_error, 0);
    }
    EXPECT_EQ(got.heatmap.weight, all.heatmap.weight);
  }
}

TEST(sampled, draws_do_not_depend_on_threads_and_stand_for_all_pairs) {
  cpu_context one{{.threads = 1}}, three{{.threads = 3}};
  const planted_case c(6, 20, 40);
  const auto model = c.model();
  const sampled set{.n = 120, .seed = 5};
  const auto a = plasticity_profile(one, model, c.rows.view(), set, {.heatmap = true, .terms = true});
  const auto b = plasticity_profile(three, model, c.rows.view(), set, {.heatmap = true, .terms = true});
  const auto exact = plasticity_profile(one, model, c.rows.view());
  const auto other = plasticity_profile(one, model, c.rows.view(), sampled{.n = 120, .seed = 6});
  const auto layer = plasticity_profile(one, model, c.rows.view(), sampled{.n = 120, .seed = 5, .layer = 1});
  test::expect_same(a, b);
  double cells = 0, pairs = 0;
  for (const double w : a.heatmap.weight) cells += w;
  for (std::size_t i = 1; i < a.buckets.size(); ++i) {
    const auto& x = a.buckets[i];
    EXPECT_NE(x.plasticity, other.buckets[i].plasticity);
    EXPECT_NE(x.plasticity, layer.buckets[i].plasticity);
    EXPECT_EQ(x.pairs, exact.buckets[i].pairs);
    EXPECT_EQ(x.drawn, 120);
    EXPECT_GT(x.sampling_error, 0);
    EXPECT_NEAR(x.plasticity, exact.buckets[i].plasticity, 5 * x.sampling_error);
    pairs += static_cast<double>(x.pairs);
  }
  EXPECT_NEAR(cells, pairs, 1e-9 * pairs);
}

TEST(prefix_uniform, weights_of_an_document_sum_to_one) {
  const auto w = prefix_uniform{}.weight();
  for (const index_t m : {2, 3, 10, 57}) {
    double sum = 0;
    for (index_t j = 1; j < m; ++j)
      for (index_t i = 0; i < j; ++i) sum += w({i, j, m});
    EXPECT_NEAR(sum, 1, 1e-14);
  }
}

}  // namespace
