// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/pair_cells.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

TEST(drawn_pairs, every_pair_is_as_likely) {
  // 3 documents of 2, 3 and 5 keys, all before the query bucket: 14 pairs.
  keys_by_document groups;
  groups.offset = {0, 2, 5, 10};
  groups.position = {1, 2, 1, 2, 3, 1, 2, 3, 4, 5};
  groups.document = {0, 1, 2};
  score_distribution scores;
  scores.mean = {1};
  scores.before = 10;
  std::map<std::array<index_t, 3>, int> seen;
  const int n = 13, seeds = 2000;
  for (int s = 0; s < seeds; ++s) {
    const auto d = backend::draw_pairs(groups, scores, {n, static_cast<std::uint64_t>(s), 0}, 0, 0);
    ASSERT_FALSE(d.all);
    for (index_t g = 0; g < 3; ++g)
      for (auto i = d.offset[g]; i < d.offset[g + 1]; ++i) ++seen[{g, d.pairs[i].i, d.pairs[i].j}];
  }
  EXPECT_EQ(seen.size(), 14u);
  double chi = 0;
  const double want = n * seeds / 14.0;
  for (const auto& [pair, count] : seen) {
    EXPECT_LT(pair[1], pair[2]);
    chi += (count - want) * (count - want) / want;
  }
  EXPECT_LT(chi, 34.5);  // 99.9 % of chi squared with 13 degrees of freedom
}

TEST(heatmap_cells, a_run_of_keys_shares_a_cell) {
  int runs = 0, keys = 0;  // of wide cells
  for (const index_t width : {1, 7, 512})
    for (const double tau : {5000.0, 4999.5, 4999.499999999999, 4321.1}) {
      const auto cells = backend::heatmap_cells::of(width, 5000 / width + 1);
      for (const std::int32_t t_i : {0, 1, 300, 2047})
        for (std::int32_t t_j = t_i; t_j < 4999;) {
          const auto run = cells.run_of(t_i, t_j, tau);
          ASSERT_EQ(run.cell, cells.cell_of(cells.place(t_i, t_j), tau));
          std::int32_t next = t_j + 1;
          for (; next < 4999 && next <= run.last; ++next)
            ASSERT_EQ(run.cell, cells.cell_of(cells.place(t_i, next), tau)) << width << ' ' << tau << ' ' << t_i;
          if (width == 512) keys += next - t_j, ++runs;
          t_j = next;
        }
    }
  EXPECT_GT(keys, 200 * runs);
}

}  // namespace
