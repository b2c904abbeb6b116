// SPDX-License-Identifier: MIT
#include "qkgeom/plasticity/bucket_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace {

using namespace qkgeom;
using test::oracle_mean;
using test::oracle_pair;
using test::planted_case;

TEST(bucket_table, equals_brute_force) {
  cpu_context ctx{{.threads = 2}};
  const planted_case c(5, 6, 60);
  const std::vector<index_t> narrow{20, 120, 140, 160, 180, 900};  // some documents have no keys in these
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
      bool one_lacks_keys = false;  // a document without keys in a bucket comes before one with pairs
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
          if (w.by_document.size() > 2) {
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
