// SPDX-License-Identifier: MIT
#include "qkgeom/report/head_tables.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/report/hand_report.hpp"

namespace {

using namespace qkgeom;
using namespace qkgeom::test;

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

}  // namespace
