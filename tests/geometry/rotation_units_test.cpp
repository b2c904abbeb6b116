// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/rotation.hpp"
#include "qkgeom/planted/heads.hpp"

namespace {

using namespace qkgeom;

planted_rows<double> drifting() {
  return plant<double>({.dim = 3,
                        .context_length = 1000,
                        .documents = 4,
                        .rows = 30,
                        .seed = 8,
                        .mean_q = {1, -2, 0.5},
                        .mean_k = {0.3, 0, 1},
                        .drift_q = {1e-3, 0, 2e-3},
                        .drift_k = {2e-3, 1e-3, 0},
                        .root_q = {1, 0, 0, 0.5, 1, 0, 0, 0.2, 0.7}});
}

TEST(context_units, slopes_times_the_context_length) {
  const auto rows = drifting();
  cpu_context ctx{{.threads = 1}};
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{100}, {.context_length = 1000});
  const auto r = planar_rotation(ctx, m);
  EXPECT_DOUBLE_EQ(r.q.alpha_context, 1000 * r.q.alpha);
  EXPECT_DOUBLE_EQ(r.k.alpha_context, 1000 * r.k.alpha);
  EXPECT_DOUBLE_EQ(r.bias.context, r.q.mu * r.k.alpha_context);
  EXPECT_DOUBLE_EQ(r.bias.alpha_k_b_context, 1000 * r.bias.alpha_k_b);
  EXPECT_DOUBLE_EQ(r.bias.context_b, r.q.mu_b * r.bias.alpha_k_b_context);
  EXPECT_NE(r.bias.context, 0);
  EXPECT_NE(r.bias.context_b, 0);
  // Buckets may end before the context does.
  const auto some = accumulate(ctx, rows.view(), edge_buckets{{0, 100, 300}}, {.context_length = 1000});
  EXPECT_DOUBLE_EQ(planar_rotation(ctx, some).k.alpha_context, 300 * r.k.alpha);
  EXPECT_DOUBLE_EQ(planar_rotation(ctx, some, {.context_length = 1000}).k.alpha_context, 1000 * r.k.alpha);
}

TEST(context_units, spread_of_score_differences_is_that_of_all_queries_and_pairs_of_keys) {
  const auto rows = drifting();
  cpu_context ctx{{.threads = 1}};
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{100}, {.context_length = 1000});
  const auto r = planar_rotation(ctx, m);
  const auto& mu = m.q.total.mean;
  const std::size_t n = rows.q.size() / 3, n_k = rows.k.size() / 3;
  double of_mean = 0, about_mean = 0, pairs = 0;
  for (std::size_t i = 0; i < n_k; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto score = [&](const double* q) {
        double s = 0;
        for (std::size_t c = 0; c < 3; ++c) s += q[c] * (rows.k[3 * i + c] - rows.k[3 * j + c]);
        return s;
      };
      ++pairs;
      const double mean = score(mu.data());
      of_mean += mean * mean;
      for (std::size_t q = 0; q < n; ++q) {
        const double off = score(&rows.q[3 * q]) - mean;
        about_mean += off * off / (static_cast<double>(n) - 1);
      }
    }
  EXPECT_NEAR(r.score_sd_mean_query, std::sqrt(of_mean / pairs), 1e-12);
  EXPECT_NEAR(r.score_sd, std::sqrt((of_mean + about_mean) / pairs), 1e-12);
  EXPECT_DOUBLE_EQ(r.bias.context_in_sd, r.bias.context / r.score_sd);
  EXPECT_DOUBLE_EQ(r.bias.context_in_sd_mean_query, r.bias.context / r.score_sd_mean_query);
}

TEST(context_units, equal_keys_have_no_spread_and_no_bias_in_units_of_it) {
  auto rows = drifting();
  std::fill(rows.k.begin(), rows.k.end(), 0.25);
  cpu_context ctx{{.threads = 1}};
  const auto r = planar_rotation(ctx, accumulate(ctx, rows.view(), uniform_buckets{100}, {.context_length = 1000}));
  EXPECT_EQ(r.score_sd, 0);
  EXPECT_EQ(r.bias.context_in_sd, 0);
  EXPECT_EQ(r.bias.context_in_sd_mean_query, 0);
}

}  // namespace
