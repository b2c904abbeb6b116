// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/tiles/tile_plan.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

/// Calls each(key i, key j, span, tile) for the pairs of a plan's tiles: i < j, of one group, both admitted.
template <class Each>
void visit_tiles(const tile::tile_plan& plan, const std::vector<index_t>& group, const std::vector<bool>& admitted,
                 const Each& each) {
  std::size_t s = 0;
  for (index_t t = 0; t < plan.tiles; ++t) {
    while (s + 1 < plan.spans.size() && plan.spans[s + 1].first_tile <= t) ++s;
    const auto& span = plan.spans[s];
    const auto at = tile::place_of(span, t - span.first_tile);
    const index_t end = span.first + span.count;
    for (index_t i = at.i0; i < std::min(end, at.i0 + tile::tile_side); ++i)
      for (index_t j = at.j0; j < std::min(end, at.j0 + tile::tile_side); ++j) {
        if (i < j && group[i] == group[j] && admitted[i] && admitted[j]) each(i, j, span, t);
      }
  }
}

TEST(tile_plan, tiles_visit_every_pair_once_and_their_sums_are_found) {
  // Groups of no keys, one, a few, just a tile, more than a tile; the bucket admits some keys of each.
  const std::vector<index_t> sizes{0, 1, 5, 90, 30, 128, 129, 2, 700, 60, 60, 60, 1};
  keys_by_document groups;
  groups.offset = {0};
  std::vector<index_t> group;
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    for (index_t i = 0; i < sizes[g]; ++i) {
      groups.position.push_back(static_cast<std::int32_t>(i));
      group.push_back(static_cast<index_t>(g));
    }
    groups.offset.push_back(static_cast<index_t>(group.size()));
  }
  for (const auto& [after, before] : {std::pair{-1.0, index_t{1000}}, {2.0, index_t{600}}, {-1.0, index_t{128}}}) {
    score_distribution scores;
    scores.after = after;
    scores.before = before;
    std::vector<bool> admitted;
    for (const std::int32_t t : groups.position) admitted.push_back(t < before && t > after);
    const tile::tile_plan plan(ranges_of(groups, scores));
    std::map<std::pair<index_t, index_t>, int> seen;
    std::vector<double> by_tile(plan.tiles), by_key(group.size());
    visit_tiles(plan, group, admitted, [&](index_t i, index_t j, const tile::tile_span& span, index_t t) {
      ++seen[{i, j}];
      (span.large ? by_tile[t] : by_key[i]) += 1;
    });
    std::size_t pairs = 0;
    ASSERT_EQ(plan.sums.size(), plan.ranges.size());
    for (std::size_t r = 0; r < plan.ranges.size(); ++r) {
      const auto want = plan.ranges[r].count * (plan.ranges[r].count - 1) / 2;
      const auto& from = plan.sums[r].tiles ? by_tile : by_key;
      double found = 0;
      for (index_t i = plan.sums[r].begin; i < plan.sums[r].end; ++i) found += from[i];
      EXPECT_EQ(found, static_cast<double>(want));
      pairs += static_cast<std::size_t>(want);
    }
    EXPECT_EQ(seen.size(), pairs);
    for (const auto& [pair, times] : seen) ASSERT_EQ(times, 1);
    EXPECT_LT(plan.tiles, 40);
  }
}

TEST(tile_plan, tiles_that_follow_one_another_read_few_keys) {
  for (const index_t across : {2, 7, 8, 9, 20, 200}) {
    const tile::tile_plan plan(std::vector<group_range>{{0, across * tile::tile_side - 5, 0}});
    ASSERT_EQ(plan.tiles, across * (across + 1) / 2);
    std::set<std::pair<index_t, index_t>> seen;
    std::set<index_t> read;
    for (index_t t = 0; t < plan.tiles; ++t) {
      const auto at = tile::place_of(plan.spans[0], t);
      ASSERT_TRUE(0 <= at.i0 && at.i0 <= at.j0 && at.j0 < plan.spans[0].count);
      seen.insert({at.i0, at.j0});
      if (t % 64 == 0) read.clear();
      read.insert({at.i0, at.j0});
      EXPECT_LE(read.size(), 40u);
    }
    EXPECT_EQ(static_cast<index_t>(seen.size()), plan.tiles);
  }
}

TEST(tile_plan, a_tile_finds_its_span_by_a_table_of_any_size) {
  std::vector<tile::tile_span> spans;
  std::vector<std::size_t> of;
  for (const index_t tiles : {1, 3, 1, 1, 700, 1, 2, 90, 1}) {
    spans.push_back({.first_tile = static_cast<index_t>(of.size()), .bucket = static_cast<std::int32_t>(spans.size())});
    of.resize(of.size() + tiles, spans.size() - 1);
  }
  const auto tiles = static_cast<index_t>(of.size());
  for (const index_t most : {1, 3, 100, 799, 800, 801, 100000}) {
    const tile::span_table table(spans, tiles, most);
    EXPECT_LE(static_cast<index_t>(table.at.size()), most + 1);
    EXPECT_EQ(table.shift == 0, most >= tiles);
    for (std::size_t t = 0; t < of.size(); ++t)
      ASSERT_EQ(tile::span_of(spans.data(), table.at.data(), table.shift, static_cast<index_t>(t)).bucket, of[t])
          << most;
  }
}

}  // namespace
