// SPDX-License-Identifier: MIT
#include "qkgeom/plasticity/bucket_table.hpp"

#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace {

using namespace qkgeom;
using test::ctx;
using test::oracle_mean;
using test::oracle_pair;
using test::planted_case;

TEST(bucket_table, equals_brute_force) {
  const planted_case c(5, 6, 60);
  const std::vector<index_t> narrow{20, 120, 140, 160, 180, 900};  // some documents have no keys in these
  for (const auto kind : {covariance_kind::linear_drift, covariance_kind::full})
    for (const auto& edges : {std::vector<index_t>{}, std::vector<index_t>{20, 100, 350, 900}, narrow}) {
      const auto model = c.model(kind);
      const auto got =
          bucket_table(ctx, model, c.rows.view(), all_pairs{}, {.key_edges = edges, .precision = pair_precision::f64});
      const auto keys = edges.empty() ? model.buckets : bucket_edges(edges);
      std::map<std::pair<index_t, index_t>, oracle_mean> want;
      test::for_each_pair(model, c.rows.view(), false, keys, [&](const oracle_pair& p) {
        want[{p.bucket, keys(p.keys.t_i)}].add(p.group, p.value[0], 1);
      });
      ASSERT_EQ(got.cells.size(), static_cast<std::size_t>(model.buckets.count() * keys.count()));
      for (index_t b = 0; b < model.buckets.count(); ++b)
        for (index_t k = 0; k < keys.count(); ++k) {
          const auto& cell = got.cell(b, k);
          const auto& w = want[{b, k}];
          EXPECT_EQ(cell.pairs, w.pairs);
          if (w.pairs == 0) {
            EXPECT_TRUE(std::isnan(cell.plasticity));
            continue;
          }
          EXPECT_NEAR(cell.plasticity, w.mean(), 1e-12);
          if (w.by_document.size() > 2) {
            EXPECT_NEAR(cell.standard_error, w.jackknife(), 1e-12);
          }
        }
    }
}

/// What tests compare of two profiles: sums by document, of every bucket.
std::vector<std::vector<double>> sums_of(const plasticity_profile_result& p) {
  std::vector<std::vector<double>> all{{p.documents.begin(), p.documents.end()}, p.heatmap.sum};
  for (const auto& b : p.buckets) all.push_back(b.document_sum);
  return all;
}

TEST(prepared_layer, gives_what_its_view_gives_in_either_order_of_keys) {
  const planted_case c(5, 6, 60);
  const auto layer = as_layer(c.rows.view());
  const std::vector models{c.model(covariance_kind::joint)};
  observed_queries<double> observed(models[0].buckets, 4096, 0);
  observed.add(layer);
  const auto queries = observed.take();
  prepared_layer prepared(ctx, layer);
  for (const bool across : {false, true, false}) {
    const all_pairs pairs{.across_documents = across};
    EXPECT_EQ(sums_of(plasticity_profile(ctx, models, prepared, pairs, {.heatmap = true})[0]),
              sums_of(plasticity_profile(ctx, models, layer, pairs, {.heatmap = true})[0]));
    const auto got = bucket_table(ctx, models, prepared, pairs)[0], want = bucket_table(ctx, models, layer, pairs)[0];
    ASSERT_EQ(got.cells.size(), want.cells.size());
    for (std::size_t i = 0; i < got.cells.size(); ++i) {
      EXPECT_EQ(got.cells[i].pairs, want.cells[i].pairs);
      if (got.cells[i].pairs > 0) {
        EXPECT_EQ(got.cells[i].plasticity, want.cells[i].plasticity);
      }
    }
    const empirical_options options{.across_documents = across};
    EXPECT_EQ(sums_of(empirical_profile(ctx, queries, prepared, models[0].buckets, options)[0]),
              sums_of(empirical_profile(ctx, queries, layer, models[0].buckets, options)[0]));
  }
  EXPECT_NE(sums_of(plasticity_profile(ctx, models, prepared)[0]),
            sums_of(plasticity_profile(ctx, models, prepared, all_pairs{.across_documents = true})[0]));
}

TEST(prepared_layer, refuses_shapes_that_do_not_fit) {
  const planted_case c(5, 2, 10);
  auto layer = as_layer(c.rows.view());
  --layer.k_position.size;
  EXPECT_QKGEOM_ERROR("k_position has 19 entries for 20 rows of k", prepared_layer(ctx, layer));
}

}  // namespace
