// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "qkgeom/backend/detail/pair_ranges.hpp"

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

}  // namespace
