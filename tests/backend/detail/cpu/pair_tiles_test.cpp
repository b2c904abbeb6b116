// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/cpu/pair_tiles.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "tests/backend/detail/cpu/keys_at.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

constexpr index_t key_dim = 4, context_length = 131072;

/// Keys at the given positions of each document, of which some equal the key before them.
struct tile_keys {
  std::vector<double> k;
  keys_by_document groups;

  explicit tile_keys(std::vector<std::vector<std::int32_t>> documents) : groups(test::keys_at(std::move(documents))) {
    const random_stream s{.seed = 6};
    for (std::size_t i = 0; i < groups.row.size(); ++i)
      for (index_t c = 0; c < key_dim; ++c)
        k.push_back(i % 50 == 1 ? k[k.size() - key_dim] : s.uniform(static_cast<std::uint64_t>(k.size())));
  }
};

std::vector<std::int32_t> drawn_positions(index_t n, index_t length, std::uint64_t seed) {
  const random_stream s{.seed = seed};
  std::vector<std::int32_t> t;
  for (index_t i = 0; i < n; ++i)
    t.push_back(static_cast<std::int32_t>(s.uniform(static_cast<std::uint64_t>(i)) * static_cast<double>(length)));
  return t;
}

/// A query bucket at tau that admits the keys in (after, before).
score_distribution bucket_at(double tau, index_t before, double after = -1) {
  score_distribution x;
  x.mean = {0.5, -0.25, 0.125, 0.5};
  x.variance = {1, 0.5, 2, 0.25};
  x.tau = tau;
  x.before = before;
  x.after = after;
  return x;
}

void expect_plain_heatmap(const std::string& what, const tile_keys& of, std::vector<score_distribution> distributions,
                          index_t cell_width, const pair_weight& weight = {}) {
  SCOPED_TRACE(what);
  cpu_context ctx{{.threads = 2}};
  const auto k = packed_tensor(of.k.data(), of.groups.row.size(), 1, key_dim);
  const pair_problem problem{0, {}, std::move(distributions)};
  std::optional<pair_sums> plain;
  for (const auto precision : {pair_precision::f32, pair_precision::f64}) {
    const auto got = ctx.gaussian_pairs(k, of.groups, {problem}, {weight, precision, cell_width})[0];
    if (!plain) plain = test::by_definition(k, of.groups, problem, weight, cell_width, got.heatmap_width);
    ASSERT_EQ(got.heatmap_sum.size(), plain->heatmap_sum.size());
    ASSERT_GT(std::accumulate(got.pairs.begin(), got.pairs.end(), std::int64_t{0}), 100000);
    const double bound = precision == pair_precision::f32 ? 1e-5 : 1e-12;
    for (std::size_t c = 0; c < plain->heatmap_sum.size(); ++c) {
      const double weights = plain->heatmap_weight[c];
      ASSERT_EQ(got.heatmap_weight[c], weights) << "cell " << c;
      ASSERT_NEAR(got.heatmap_sum[c], plain->heatmap_sum[c], weights * bound) << "cell " << c;
    }
  }
}

TEST(cpu_pair_tiles, heatmaps_are_those_of_one_pair_after_the_other) {
  constexpr index_t everything = context_length, wide = 8192;
  const tile_keys drawn{{drawn_positions(4096, context_length, 1)}};
  expect_plain_heatmap("one document", drawn, {bucket_at(126976.3, everything)}, wide);
  expect_plain_heatmap("keys that the query does not see", drawn, {bucket_at(60000.5, everything)}, wide);
  expect_plain_heatmap("cells that are no power of two", drawn, {bucket_at(126976.3, everything)}, 1000);
  expect_plain_heatmap("query buckets and windows whose keys end inside a tile", drawn,
                       {bucket_at(50000, 40321), bucket_at(90000.7, 80123, 70017.5), bucket_at(120000, 110007, 2000)},
                       wide);
  expect_plain_heatmap("a weight", drawn, {bucket_at(126976.3, 100003)}, wide,
                       [](const key_pair& p) { return static_cast<double>((p.i + p.j) % 3); });
  expect_plain_heatmap("small documents beside large ones",
                       tile_keys{{drawn_positions(1500, context_length, 2), drawn_positions(40, context_length, 3),
                                  drawn_positions(900, 20000, 4), drawn_positions(70, context_length, 5)}},
                       {bucket_at(126976.3, everything), bucket_at(70000, 60000)}, wide);
}

TEST(cpu_pair_tiles, keys_at_one_position_share_a_cell) {
  constexpr index_t cell_width = 512;
  expect_plain_heatmap("few positions", tile_keys{{drawn_positions(2000, 700, 1)}}, {bucket_at(900.5, 800)}, 64);
  std::vector<std::int32_t> at_edges;  // and one token to either side
  for (index_t i = 0; i < 1200; ++i)
    at_edges.push_back(static_cast<std::int32_t>(i / 25 % 12 * cell_width + i % 3 + cell_width - 1));
  for (const double tau : {8192.0, 8192.5, 8191.75})
    expect_plain_heatmap("edges of cells", tile_keys{{at_edges}}, {bucket_at(tau, 8000)}, cell_width);
  expect_plain_heatmap("one token a cell", tile_keys{{drawn_positions(600, 300, 7)}}, {bucket_at(310, 305)}, 1);
}

}  // namespace
