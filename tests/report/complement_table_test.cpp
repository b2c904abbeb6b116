// SPDX-License-Identifier: MIT
// The tables of complement planes, decay and model heatmaps, read back.
#include <gtest/gtest.h>

#include <cmath>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/report/head_tables.hpp"
#include "tests/io/scratch.hpp"

namespace {

using namespace qkgeom;

/// Three planted heads, analysed as far as the tables need it.
struct analysed {
  model_report report{"planted", 1024, uniform_buckets{64}.edges(1024), {}};
  std::vector<head_complement> complement;
  std::vector<head_decay> decay;

  analysed() {
    cpu_context ctx{{.threads = 1}};
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

/// The file's rows as numbers of one column; null is NaN.
std::vector<double> column_of(const std::filesystem::path& path, const std::string& name) {
  return read_csv(path).numbers(name);
}

using geometry_tables = test::in_scratch_folder;

TEST_F(geometry_tables, complement) {
  const auto path = folder / "complement.csv";
  write_csv(path, complement_table(planted_model().complement));
  const auto frequency = column_of(path, "k_frequency"), plane = column_of(path, "plane");
  ASSERT_EQ(frequency.size(), 9u);  // three heads of (8 - 2) / 2 planes
  EXPECT_EQ(frequency[4], planted_model().complement[1].complement.planes[1].k.frequency);
  EXPECT_EQ(plane[4], 1);
  EXPECT_EQ(column_of(path, "q_active")[4], planted_model().complement[1].complement.planes[1].q.active);
}

TEST_F(geometry_tables, decay) {
  const auto path = folder / "decay.csv", profile = folder / "decay_profile.csv";
  write_csv(path, decay_table(planted_model().decay));
  write_csv(profile, decay_profile_table(planted_model().decay));
  const auto gamma = column_of(path, "abs_gamma_median");
  ASSERT_EQ(gamma.size(), 6u);
  EXPECT_EQ(gamma[3], planted_model().decay[1].decay.pooled.abs_gamma.median);
  EXPECT_EQ(column_of(path, "pi_0")[3], 0);
  EXPECT_NEAR(column_of(path, "variance_relative_slope_p90")[3], 0, 1e-15);
  const auto plasticity = column_of(profile, "plasticity"), promised = column_of(profile, "promised");
  ASSERT_EQ(plasticity.size(), 6u * 16u);
  EXPECT_TRUE(std::isnan(plasticity[0]));  // bucket 0 admits no pair
  for (std::size_t i = 0; i < plasticity.size(); ++i) {
    if (i % 16 == 0) continue;
    EXPECT_LE(plasticity[i], promised[i]);
    EXPECT_GT(column_of(profile, "tau")[i], 0);
  }
}

TEST_F(geometry_tables, model_level) {
  const auto& report = planted_model().report;
  const auto maps = model_heatmaps(report);
  write_csv(folder / "model_heatmap.csv", model_heatmap_table(maps));
  double filled = 0;
  for (const index_t n : maps[0].heads) filled += n > 0;
  EXPECT_EQ(static_cast<double>(column_of(folder / "model_heatmap.csv", "plasticity").size()), filled);
  EXPECT_GT(filled, 50);
}

}  // namespace
