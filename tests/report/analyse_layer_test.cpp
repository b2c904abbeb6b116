// SPDX-License-Identifier: MIT
// analyse_layer on rows whose documents lie on several processes.
#include "qkgeom/report/analyse_layer.hpp"

#include <gmock/gmock.h>

#include "qkgeom/report/detail/report_bytes.hpp"
#include "tests/backend/spread_rows.hpp"

namespace {

using namespace qkgeom;
using test::deal;
using test::layer_of;
using test::layer_rows;
using test::of_layer;

/// The reports of a layer with all that `analyse_layer` does.
template <class Context>
std::vector<head_report> reports_of(Context& ctx, const layer_view<float>& layer, index_t drawn = 0) {
  return analyse_layer(ctx, layer, {.layer = 5, .query_heads = {0, 1, 2, 3}, .key_heads = {0, 1, 2}},
                       uniform_buckets{150}.edges(1000), 1000,
                       {.sampled_pairs = drawn, .components = true, .geometry_blocks = 4});
}

TEST(analyse_layer, of_documents_on_several_processes_gives_every_bit_of_one) {
  const auto reports = [](auto& ctx, const auto& layer) {
    return bytes_of(reports_of(ctx, layer)) + bytes_of(reports_of(ctx, layer, 30));
  };
  const auto one = of_layer(1, deal::in_turn, reports)[0];
  for (const int n : {2, 3, 4, 7})
    for (const deal how : {deal::in_turn, deal::in_stretches, deal::all_to_the_last})
      for (const auto& found : of_layer(n, how, reports)) EXPECT_TRUE(found == one) << n << " processes";
}

TEST(analyse_layer, of_documents_on_several_processes_is_near_that_of_all_rows) {
  cpu_context cpu{{.threads = 1}};
  const auto whole = reports_of(cpu, layer_of(layer_rows()));
  const auto spread = from_bytes<std::vector<head_report>>(
      of_layer(3, deal::in_turn, [](auto& ctx, const auto& layer) { return bytes_of(reports_of(ctx, layer)); })[2]);
  ASSERT_EQ(spread.size(), whole.size());
  for (std::size_t h = 0; h < whole.size(); ++h) {
    const auto &a = spread[h], &b = whole[h];
    EXPECT_EQ(a.queries, test::spread_documents * 60);
    EXPECT_EQ(a.keys, test::spread_documents * 60);
    EXPECT_EQ(a.geometry.blocks, b.geometry.blocks);
    // The same rows in another order of sums: the axes, and with them these numbers, differ by rounding.
    EXPECT_NEAR(a.pca.r_q[0], b.pca.r_q[0], 1e-12);
    EXPECT_NEAR(a.rotation.score_sd, b.rotation.score_sd, 1e-12 * b.rotation.score_sd);
    ASSERT_EQ(a.geometry.without.size(), 4u);
    for (std::size_t r = 0; r < 4; ++r)
      EXPECT_NEAR(a.geometry.without[r].pca.r_k[0], b.geometry.without[r].pca.r_k[0], 1e-12);
    EXPECT_LT(test::distance(a.profiles[1], b.profiles[1]), 1e-6);  // pairs in f32
    EXPECT_LT(test::distance(*a.empirical, *b.empirical), 1e-6);
  }
}

}  // namespace
