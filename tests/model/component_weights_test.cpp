// SPDX-License-Identifier: MIT
#include "qkgeom/model/component_weights.hpp"

#include <gtest/gtest.h>

#include "qkgeom/backend/cpu_context.hpp"
#include "tests/model/drifting_head.hpp"

namespace {

using namespace qkgeom;

TEST(component_weights, are_shares_of_r2) {
  cpu_context ctx{{.threads = 1}};
  const auto rows = plant<double>(test::drifting());
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{256}, {.context_length = 4096});
  const auto w = component_weights(ctx, m);
  double sum = 0, r2 = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    sum += w.weight[i];
    r2 += w.r2[i];
  }
  EXPECT_NEAR(sum, 1, 1e-14);
  const double spread2 = 4096.0 * 4096.0 / 12;
  EXPECT_NEAR(w.r2[2], 1e-6 * spread2 / (1 + 1e-6 * spread2), 0.05);
  EXPECT_NEAR(w.r2[7], 2.5e-7 * spread2 / (1 + 2.5e-7 * spread2), 0.05);
  EXPECT_NEAR(w.weight[2] / w.r2[2], 1 / r2, 1e-12);
}

TEST(component_weights, are_equal_where_nothing_drifts) {
  cpu_context ctx{{.threads = 1}};
  auto rows = plant<double>(test::drifting());
  for (auto& t : rows.q_position) t = 7;
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{256}, {.context_length = 4096});
  for (const double w : component_weights(ctx, m).weight) EXPECT_DOUBLE_EQ(w, 1.0 / 12);
}

}  // namespace
