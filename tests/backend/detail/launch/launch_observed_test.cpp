// SPDX-License-Identifier: MIT
// The program of observed queries that cuda_context launches, on the host, against cpu_context.

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "qkgeom/plasticity/empirical.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/backend/host_launcher.hpp"

namespace {

using namespace qkgeom;
using test::distance;
using test::tile_context;

TEST(tile_observed, observed_queries_give_the_sums_of_the_cpu) {
  cpu_context cpu{{.threads = 2}};
  tile_context tiles;
  for (const auto& [channels, documents, rows] : {std::array<index_t, 3>{24, 3, 90}, {8, 9, 20}, {16, 2, 300}})
    for (const bool across : {false, true})
      for (const auto window : {std::optional<index_t>(), std::optional<index_t>(300)}) {
        const auto planted = plant<bf16>(test::compared_head(channels, documents, rows, 20));
        auto head = planted.view();
        head.window = window;
        const auto want = empirical_profile(cpu, head, uniform_buckets{150}, 1000, {.across_documents = across});
        const auto got = empirical_profile(tiles, head, uniform_buckets{150}, 1000, {.across_documents = across});
        EXPECT_LE(distance(got, want), 1e-5);
        EXPECT_LE(test::distance_of_errors(got, want), 1e-5);
        EXPECT_GT(want.buckets.back().pairs, 100);
      }
}

TEST(tile_observed, a_score_wins_ties_or_loses) {
  for (const float x : {1e-25f, 1.0f, 3e38f})
    for (const float y : {-x, 0.0f, std::nextafter(x, 0.0f)}) {
      EXPECT_EQ(tile::wins(x, y), 1);
      EXPECT_EQ(tile::wins(y, x), 0);
      EXPECT_EQ(tile::wins(x, x), 0.5);
    }
}

TEST(tile_observed, observed_queries_that_tie_count_one_half) {
  cpu_context cpu{{.threads = 2}};
  tile_context tiles;
  for (const auto& [documents, rows] : {std::pair<index_t, index_t>{3, 40}, {1, 600}}) {
    const auto planted = test::rows_with_ties<bf16>(documents, rows);
    const auto want = empirical_profile(cpu, planted.view(), uniform_buckets{150}, 1000);
    EXPECT_LE(distance(empirical_profile(tiles, planted.view(), uniform_buckets{150}, 1000), want), 1e-12);
  }
}

TEST(tile_observed, f64_and_extreme_sizes_are_summed_in_f64) {
  tile_context tiles;
  test::expect_f64_where_it_is_needed(tiles);
}

}  // namespace
