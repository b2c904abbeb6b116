// SPDX-License-Identifier: MIT
// Tables of what stands behind a profile, read back and compared with the profile they were written from.
#include "qkgeom/report/head_tables.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/model_summary.hpp"
#include "tests/io/scratch.hpp"

namespace {

using namespace qkgeom;

struct read_table {
  csv_table t;
  explicit read_table(const std::filesystem::path& path) : t(read_csv(path)) {}
  std::size_t rows() const { return t.rows(); }
  const std::string& text(std::size_t row, const char* column) const { return t.column(column)[row]; }
  double number(std::size_t row, const char* column) const { return t.numbers(column)[row]; }
};

struct pair_tables : testing::Test {
  cpu_context ctx{{.threads = 2}};
  planted_rows<double> rows;
  query_model model;
  model_report report{"planted", 1000, uniform_buckets{200}.edges(1000), {}};
  test::scratch_folder folder;

  pair_tables() {
    planted_head spec{.dim = 4, .context_length = 1000, .documents = 8, .rows = 30, .seed = 5};
    spec.mean_q = {0.8, 0, 0, 0};
    spec.drift_q = {1e-3, 0, 0, 0};
    spec.drift_k = {2e-3, 0, 0, 0};
    rows = plant<double>(spec);
    model = fit_queries(ctx, accumulate(ctx, rows.view(), uniform_buckets{200}, {.context_length = 1000}));
    head_report h;
    h.layer = 3;
    h.q_head = 5;
    h.k_head = 2;
    h.rotation.bias.strength = 0.01;
    h.profiles.push_back(plasticity_profile(ctx, model, rows.view(), all_pairs{}, {.heatmap = true, .terms = true}));
    report.heads.push_back(std::move(h));
  }
};

TEST_F(pair_tables, components_of_buckets_and_cells) {
  write_csv(folder / "components.csv", components_table(report));
  const read_table t(folder / "components.csv");
  const auto& profile = report.heads[0].profiles[0];
  const auto z = term_profile(profile, pair_term::abs_z);
  std::size_t buckets = 0, cells = 0;
  for (std::size_t r = 0; r < t.rows(); ++r) {
    if (t.text(r, "level") == "bucket") {
      const auto b = static_cast<std::size_t>(t.number(r, "q_bucket"));
      ++buckets;
      if (b == 0) {
        EXPECT_TRUE(std::isnan(t.number(r, "plasticity")));
        continue;
      }
      EXPECT_EQ(t.number(r, "abs_z"), z.buckets[b].plasticity);
      EXPECT_EQ(t.number(r, "abs_z_error"), z.buckets[b].standard_error);
      EXPECT_EQ(t.number(r, "plasticity"), profile.buckets[b].plasticity);
      continue;
    }
    const auto i = static_cast<index_t>(t.number(r, "key_distance")) / 200,
               j = static_cast<index_t>(t.number(r, "query_distance")) / 200;
    ++cells;
    EXPECT_EQ(t.number(r, "later_wins"), cell_mean(profile.heatmap, i, j, pair_term::later_wins).value);
    EXPECT_NEAR(t.number(r, "plasticity"), profile.heatmap.mean(i, j), 1e-9);
    EXPECT_TRUE(std::isnan(t.number(r, "q_bucket")));
  }
  EXPECT_EQ(buckets, 5u);
  EXPECT_GT(cells, 5u);
  report.heads[0].profiles[0] = plasticity_profile(ctx, model, rows.view());
  EXPECT_THROW(write_csv(folder / "components.csv", components_table(report)), error);
}

TEST_F(pair_tables, later_keys_beside_the_bias) {
  write_csv(folder / "later_keys.csv", later_keys_table(report));
  const read_table t(folder / "later_keys.csv");
  ASSERT_EQ(t.rows(), 1u);
  const auto later = term_profile(report.heads[0].profiles[0], pair_term::later_wins);
  EXPECT_EQ(t.number(0, "later_wins"), summarize(later, 1000).overall.value);
  EXPECT_EQ(t.number(0, "later_wins_error"), summarize(later, 1000).overall.error);
  EXPECT_GT(t.number(0, "later_wins"), 0.5);  // keys drift along the queries' mean
  EXPECT_EQ(t.number(0, "agrees"), 1);
  double agree = 0, queries = 0;
  for (const auto& b : later.buckets) {
    if (std::isnan(b.plasticity)) continue;
    agree += b.plasticity > 0.5 ? static_cast<double>(b.queries) : 0.0;
    queries += static_cast<double>(b.queries);
  }
  EXPECT_NEAR(t.number(0, "agreeing_share"), agree / queries, 1e-15);

  const auto against = later_keys(report.heads[0].profiles[0], -0.01, 1000);
  EXPECT_EQ(against.favoured_wins.value, 1 - t.number(0, "favoured_wins"));
  EXPECT_EQ(against.agrees, false);
  EXPECT_NEAR(against.agreeing_share.value, 1 - agree / queries, 1e-15);
  const auto none = later_keys(report.heads[0].profiles[0], 0, 1000);
  EXPECT_FALSE(none.agrees.has_value());
  EXPECT_TRUE(std::isnan(none.favoured_wins.value));
}

TEST_F(pair_tables, bucket_table) {
  const std::vector<plasticity_bucket_table> tables{qkgeom::bucket_table(ctx, model, rows.view())};
  write_csv(folder / "bucket_table.csv", bucket_table_table(report, tables));
  const read_table t(folder / "bucket_table.csv");
  std::size_t filled = 0;
  for (const auto& c : tables[0].cells) filled += c.pairs > 0;
  ASSERT_EQ(t.rows(), filled);
  for (std::size_t r = 0; r < t.rows(); ++r) {
    const auto& cell =
        tables[0].cell(static_cast<index_t>(t.number(r, "q_bucket")), static_cast<index_t>(t.number(r, "k_bucket")));
    EXPECT_EQ(t.number(r, "plasticity"), cell.plasticity);
    EXPECT_EQ(t.number(r, "standard_error"), cell.standard_error);
    EXPECT_EQ(t.number(r, "pairs"), static_cast<double>(cell.pairs));
    EXPECT_EQ(t.number(r, "k_end"), 200 * (t.number(r, "k_bucket") + 1));
  }
  EXPECT_THROW(write_csv(folder / "bucket_table.csv", bucket_table_table(report, {})), error);
}

TEST_F(pair_tables, sampling_errors_of_summaries_by_hand) {
  const auto p = plasticity_profile(ctx, model, rows.view(), sampled{.n = 50, .seed = 1});
  double square = 0, weight = 0;
  for (std::size_t b = 1; b < p.buckets.size(); ++b) {
    const auto q = static_cast<double>(p.buckets[b].queries);
    square += q * q * p.buckets[b].sampling_error * p.buckets[b].sampling_error;
    weight += q;
  }
  const auto e = sampling_errors(p, 1000);
  EXPECT_NEAR(e.overall, std::sqrt(square) / weight, 1e-15);
  EXPECT_NEAR(e.last20, p.buckets[4].sampling_error, 1e-15);
  EXPECT_TRUE(std::isnan(e.first20));  // the first bucket has no pairs
  EXPECT_EQ(sampling_errors(report.heads[0].profiles[0], 1000).overall, 0);
}

}  // namespace
