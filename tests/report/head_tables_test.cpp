// SPDX-License-Identifier: MIT
// Tables of heads, written, read back and compared with the results that they were written from.
#include "qkgeom/report/head_tables.hpp"

#include "qkgeom/report/model_summary.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/io/scratch.hpp"
#include "tests/report/hand_report.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

/// A table, written to a file and read back.
struct read_back : csv_table {
  explicit read_back(const table& t) : csv_table(test::written(t)) {}
  double number(std::size_t row, const char* column) const { return numbers(column)[row]; }
};

/// Three planted heads, analysed as far as the tables need it.
struct analysed {
  model_report report{"planted", 1024, uniform_buckets{64}.edges(1024), {}};
  std::vector<head_complement> complement;
  std::vector<head_decay> decay;

  analysed() {
    for (int h = 0; h < 3; ++h) {
      planted_head spec{.dim = 8, .context_length = 1024, .documents = 6, .rows = 60};
      spec.seed = static_cast<std::uint64_t>(h + 1);
      spec.drift_q.assign(8, (1 + h) * 1e-3);
      spec.drift_k.assign(8, 1e-3);
      const auto rows = plant<double>(spec);
      const auto m = accumulate(ctx, rows.view(), uniform_buckets{64}, {.context_length = 1024});
      head_report r;
      r.layer = h;
      r.q_head = 3;
      r.k_head = 1;
      r.pca = pca(ctx, m);
      r.rotation = planar_rotation(ctx, m);
      r.profiles = {plasticity_profile(ctx, fit_queries(ctx, m), rows.view(), all_pairs{}, {.heatmap = true})};
      r.summaries = {summarize(r.profiles[0], 1024)};
      complement.push_back({h, 3, 1, complement_planes(ctx, rows.view(), m, r.rotation)});
      decay.push_back({h, 3, 1, check_decay(ctx, m, rows.view())});
      report.heads.push_back(std::move(r));
    }
  }
};

const analysed& planted_model() {
  static const analysed all;
  return all;
}

TEST(geometry_tables, complement) {
  const read_back t(complement_table(planted_model().complement));
  ASSERT_EQ(t.rows(), 9u);  // three heads of (8 - 2) / 2 planes
  const auto& plane = planted_model().complement[1].complement.planes[1];
  EXPECT_EQ(t.number(4, "k_frequency"), plane.k.frequency);
  EXPECT_EQ(t.number(4, "plane"), 1);
  EXPECT_EQ(t.number(4, "q_active"), plane.q.active);
}

TEST(geometry_tables, decay) {
  const read_back t(decay_table(planted_model().decay)), profile(decay_profile_table(planted_model().decay));
  ASSERT_EQ(t.rows(), 6u);
  EXPECT_EQ(t.number(3, "abs_gamma_median"), planted_model().decay[1].decay.pooled.abs_gamma.median);
  EXPECT_EQ(t.number(3, "pi_0"), 0);
  EXPECT_NEAR(t.number(3, "variance_relative_slope_p90"), 0, 1e-15);
  const auto plasticity = profile.numbers("plasticity"), promised = profile.numbers("promised");
  ASSERT_EQ(plasticity.size(), 6u * 16u);
  EXPECT_TRUE(std::isnan(plasticity[0]));  // bucket 0 admits no pair
  for (std::size_t i = 0; i < plasticity.size(); ++i) {
    if (i % 16 == 0) continue;
    EXPECT_LE(plasticity[i], promised[i]);
    EXPECT_GT(profile.number(i, "tau"), 0);
  }
}

TEST(geometry_tables, model_level) {
  const auto& report = planted_model().report;
  const auto maps = model_heatmaps(report);
  std::size_t filled = 0;
  for (const index_t n : maps[0].heads) filled += n > 0;
  EXPECT_EQ(read_back(model_heatmap_table(maps)).rows(), filled);
  EXPECT_GT(filled, 50u);
}

struct pair_tables : testing::Test {
  planted_rows<double> rows;
  query_model model;
  model_report report{"planted", 1000, uniform_buckets{200}.edges(1000), {}};

  pair_tables() {
    planted_head spec{.dim = 4, .context_length = 1000, .documents = 8, .rows = 30, .seed = 5};
    spec.mean_q = {0.8, 0, 0, 0};
    spec.drift_q = {1e-3, 0, 0, 0};
    spec.drift_k = {2e-3, 0, 0, 0};
    rows = plant<double>(spec);
    model = test::model_of(rows.view(), 200, 1000);
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
  const read_back t(components_table(report));
  const auto& profile = report.heads[0].profiles[0];
  const auto z = term_profile(profile, pair_term::abs_z);
  std::size_t buckets = 0, cells = 0;
  for (std::size_t r = 0; r < t.rows(); ++r) {
    if (t.column("level")[r] == "bucket") {
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
  EXPECT_THROW(test::written(components_table(report)), error);
}

TEST_F(pair_tables, later_keys_beside_the_bias) {
  const read_back t(later_keys_table(report));
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
  const read_back t(bucket_table_table(report, tables));
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
  EXPECT_THROW(test::written(bucket_table_table(report, {})), error);
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

TEST(model_heatmap, is_the_mean_of_head_means_with_enough_pairs) {
  auto report = test::hand_report(3, test::scattered);
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

}  // namespace
