// SPDX-License-Identifier: MIT
// Pair sets of a caller's own, sampled pairs, and (query bucket, key bucket) tables against every pair written out.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/planted/heads.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/plasticity/pair_terms.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace {

using namespace qkgeom;
using test::oracle_mean;
using test::oracle_pair;

struct planted_case {
  planted_rows<double> rows;
  planted_case(index_t dim, index_t documents, index_t keys) {
    planted_head spec{.dim = dim, .context_length = 1000, .documents = documents, .rows = keys, .seed = 21};
    spec.drift_q.assign(dim, 2e-3);
    spec.mean_q.assign(dim, 0.3);
    rows = plant<double>(spec);
  }
  query_model model(cpu_context& ctx, covariance_kind kind = covariance_kind::diagonal) const {
    return fit_queries(ctx, accumulate(ctx, rows.view(), uniform_buckets{150}, {.context_length = 1000}),
                       {.covariance = kind});
  }
};

/// A weight that depends on everything a weight can see, and leaves some pairs out.
double odd_weight(const key_pair& p) {
  if (p.distance() < 40 || (p.i + p.j) % 5 == 0) return 0;
  return 1 + 0.1 * static_cast<double>(p.i) + 0.03 * static_cast<double>(p.j * p.keys) +
         1e-3 * static_cast<double>(p.t_j) + 2e-3 * static_cast<double>(p.t_i) + 0.2 * p.document_i +
         0.7 * p.document_j + 1e-3 * p.tau;
}

class groups_of : public testing::TestWithParam<std::pair<index_t, index_t>> {};
INSTANTIATE_TEST_SUITE_P(documents_and_keys, groups_of,
                         testing::Values(std::pair<index_t, index_t>{6, 20}, std::pair<index_t, index_t>{2, 90}));

TEST_P(groups_of, weighted_pairs_equal_brute_force) {
  cpu_context ctx{{.threads = 2}};
  const planted_case c(5, GetParam().first, GetParam().second);
  for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint})
    for (const bool across : {false, true}) {
      const auto model = c.model(ctx, kind);
      const auto got = plasticity_profile(ctx, model, c.rows.view(),
                                          weighted_pairs{.weight_of = odd_weight, .across_documents = across},
                                          {.heatmap = true, .precision = pair_precision::f64});
      std::map<index_t, oracle_mean> want;
      double heat = 0, got_heat = 0;
      test::for_each_pair(model, c.rows.view(), across, {}, [&](const oracle_pair& p) {
        want[p.bucket].add(p.group, p.value[0], odd_weight(p.keys));
        heat += p.value[0] * odd_weight(p.keys);
      });
      ASSERT_GE(want.size(), 5u);
      for (const auto& [b, w] : want) {
        const auto& bucket = got.buckets[b];
        EXPECT_NEAR(bucket.plasticity, w.mean(), 1e-12);
        EXPECT_EQ(bucket.pairs, w.pairs);
        if (across) continue;
        EXPECT_NEAR(bucket.standard_error, w.jackknife(), 1e-12);
      }
      for (const double x : got.heatmap.sum) got_heat += x;
      EXPECT_NEAR(got_heat, heat, 1e-12 * heat);
    }
}

TEST(pair_sets, a_lambda_is_a_pair_set) {
  cpu_context ctx{{.threads = 2}};
  const planted_case c(4, 5, 30);
  const auto model = c.model(ctx);
  const auto near = [](const key_pair& p) { return p.distance() < 100; };
  const auto got = plasticity_profile(ctx, model, c.rows.view(), near);
  const auto same = plasticity_profile(ctx, model, c.rows.view(), weighted_pairs{near});
  std::map<index_t, oracle_mean> want;
  test::for_each_pair(model, c.rows.view(), false, {},
                      [&](const oracle_pair& p) { want[p.bucket].add(p.group, p.value[0], near(p.keys) ? 1 : 0); });
  for (const auto& [b, w] : want) {
    EXPECT_NEAR(got.buckets[b].plasticity, w.mean(), 1e-12);
    EXPECT_EQ(got.buckets[b].pairs, w.pairs);
    EXPECT_EQ(got.buckets[b].plasticity, same.buckets[b].plasticity);
  }
}

TEST(pair_sets, a_weight_that_is_none_is_refused) {
  cpu_context ctx{{.threads = 2}};
  const planted_case c(4, 3, 20);
  const auto model = c.model(ctx);
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(plasticity_profile(ctx, model, c.rows.view(), [bad](const key_pair&) { return bad; }), error);
  EXPECT_THROW(plasticity_profile(ctx, model, c.rows.view(), weighted_pairs{}), error);
  EXPECT_THROW(plasticity_profile(ctx, model, c.rows.view(), sampled{.n = 1}), error);
}

TEST(sampled, takes_each_pair_once_where_there_are_no_more_than_n) {
  cpu_context ctx{{.threads = 2}};
  const planted_case c(5, 4, 25);
  for (const auto kind : all_covariance_kinds) {
    const auto model = c.model(ctx, kind);
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
  const auto model = c.model(one);
  const sampled set{.n = 120, .seed = 5};
  const auto a = plasticity_profile(one, model, c.rows.view(), set, {.heatmap = true, .terms = true});
  const auto b = plasticity_profile(three, model, c.rows.view(), set, {.heatmap = true, .terms = true});
  const auto exact = plasticity_profile(one, model, c.rows.view());
  const auto other = plasticity_profile(one, model, c.rows.view(), sampled{.n = 120, .seed = 6});
  const auto layer = plasticity_profile(one, model, c.rows.view(), sampled{.n = 120, .seed = 5, .layer = 1});
  EXPECT_EQ(a.heatmap.sum, b.heatmap.sum);
  EXPECT_EQ(a.heatmap.terms.square, b.heatmap.terms.square);
  double cells = 0, pairs = 0;
  for (const double w : a.heatmap.weight) cells += w;
  for (std::size_t i = 1; i < a.buckets.size(); ++i) {
    const auto& x = a.buckets[i];
    EXPECT_EQ(x.plasticity, b.buckets[i].plasticity);
    EXPECT_EQ(x.term_sum, b.buckets[i].term_sum);
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

TEST(bucket_table, equals_brute_force) {
  cpu_context ctx{{.threads = 2}};
  const planted_case c(5, 6, 60);
  const std::vector<index_t> narrow{20, 120, 140, 160, 180, 900};  // not every document has keys in these
  for (const auto kind : {covariance_kind::linear_drift, covariance_kind::full})
    for (const auto& edges : {std::vector<index_t>{}, std::vector<index_t>{20, 100, 350, 900}, narrow}) {
      const auto model = c.model(ctx, kind);
      const auto got = bucket_table(ctx, model, c.rows.view(), all_pairs{},
                                    {.key_edges = edges, .precision = pair_precision::f64, .keep_documents = true});
      const auto keys = edges.empty() ? model.buckets : bucket_edges(edges);
      std::map<std::pair<index_t, index_t>, oracle_mean> want;
      test::for_each_pair(model, c.rows.view(), false, keys, [&](const oracle_pair& p) {
        want[{p.bucket, keys(p.keys.t_i)}].add(p.group, p.value[0], 1);
      });
      ASSERT_EQ(got.cells.size(), static_cast<std::size_t>(model.buckets.count() * keys.count()));
      const auto has_keys = [&](index_t bucket, std::size_t document) {
        const auto& rows = c.rows;
        for (std::size_t i = 0; i < rows.k_position.size(); ++i)
          if (keys(rows.k_position[i]) == bucket && rows.k_document[i] == static_cast<std::int32_t>(document))
            return true;
        return false;
      };
      bool one_lacks_keys = false;  // before one with pairs
      for (index_t b = 0; b < model.buckets.count(); ++b)
        for (index_t k = 0; k < keys.count(); ++k) {
          const auto& cell = got.cell(b, k);
          const auto& w = want[{b, k}];
          EXPECT_EQ(cell.pairs, w.pairs);
          ASSERT_EQ(cell.document_sum.size(), 6u);
          if (w.pairs == 0) {
            EXPECT_TRUE(std::isnan(cell.plasticity));
            continue;
          }
          EXPECT_NEAR(cell.plasticity, w.mean(), 1e-12);
          if (w.by_document.size() > 1) {
            EXPECT_NEAR(cell.standard_error, w.jackknife(), 1e-12);
          }
          for (std::size_t e = 0; e < 6; ++e) {
            const auto x = w.by_document.find(static_cast<std::int32_t>(e));
            EXPECT_NEAR(cell.document_sum[e], x == w.by_document.end() ? 0.0 : x->second.first, 1e-10);
          }
          for (std::size_t e = 0; e < 6; ++e)
            one_lacks_keys |= !has_keys(k, e) && w.by_document.rbegin()->first > static_cast<std::int32_t>(e);
        }
      EXPECT_EQ(one_lacks_keys, edges == narrow);
    }
}

}  // namespace
