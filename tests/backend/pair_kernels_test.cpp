// SPDX-License-Identifier: MIT
// The terms of the pair kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/tiles/math.hpp"
#include "qkgeom/backend/detail/tiles/plan.hpp"
#include "qkgeom/context/pair_formula.hpp"

namespace {

using namespace qkgeom;

TEST(pair_kernels, f32_lanes_err_by_at_most_2e_7_and_are_never_negative) {
  double worst = 0;
  for (double z = 0; z < 30; z += 1e-4)
    for (const double v : {0.031, 1.0, 27.0}) {
      const auto m = static_cast<float>(z * std::sqrt(v));
      const auto p = cpu::plasticity_lanes(cpu::splat(m), cpu::splat(static_cast<float>(v)));
      for (int l = 0; l < cpu::lanes<float>; ++l) {
        ASSERT_GE(p[l], 0.0f);
        worst = std::max(worst, std::abs(static_cast<double>(p[l]) - pair_plasticity(m, static_cast<float>(v))));
      }
    }
  EXPECT_LE(worst, 2e-7);
  EXPECT_GT(worst, 1e-9);
}

TEST(tile_math, f32_plasticity_errs_by_at_most_2e_7_and_is_never_negative) {
  double worst = 0;
  for (double z = 0; z < 30; z += 1e-4)
    for (const double v : {0.031, 1.0, 27.0}) {
      const auto m = static_cast<float>(z * std::sqrt(v)), w = static_cast<float>(v);
      const float p = tile::plasticity(m, w);
      ASSERT_GE(p, 0.0f);
      worst = std::max(worst, std::abs(static_cast<double>(p) - pair_plasticity(m, w)));
    }
  EXPECT_LE(worst, 2e-7);
  EXPECT_GT(worst, 1e-9);
  EXPECT_EQ(tile::plasticity(0.0f, tile::least_v<float>), 1.0f);
  EXPECT_LE(tile::plasticity(1e17f, tile::least_v<float>), 1e-15f);
}

TEST(tile_math, split_operands_hold_f32_to_2_to_the_minus_17) {
  const random_stream stream{.seed = 3};
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(std::ldexp(stream.uniform(2 * i) - 0.5, static_cast<int>(i % 40) - 20));
    const auto s = tile::split_of(x);
    EXPECT_LE(std::abs(static_cast<double>(x) - static_cast<double>(s.high) - static_cast<double>(s.low)),
              std::ldexp(std::abs(static_cast<double>(x)), -17));
  }
}

/// Keys as a kernel sees them, of order 1 a pair: z (n, d); every eighth key lies close to the one before it.
std::vector<float> tile_of_keys(index_t n, index_t d) {
  const random_stream stream{.seed = 8};
  std::vector<float> z(n * d);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const auto row = i / static_cast<std::size_t>(d);
    const double x = (stream.uniform(i) - 0.5) * std::sqrt(12.0 / static_cast<double>(d));
    z[i] = static_cast<float>(row % 8 == 7 ? z[i - static_cast<std::size_t>(d)] + 0.02 * x : x);
  }
  return z;
}

/// Largest and mean signed error of the plasticity of all pairs, v = n_i + n_j - 2 g by products of bf16 in f32,
/// against differences in f64; `mend`: pairs that have cancelled are taken from the difference.
template <class Product, class Square>
std::pair<double, double> gram_errors(index_t n, index_t d, const Product& product, const Square& square, bool mend) {
  const auto z = tile_of_keys(n, d);
  const auto at = [&](index_t i, index_t c) { return z[i * d + c]; };
  const auto dot = [&](index_t i, index_t j) {
    float sum = 0;
    for (index_t c = 0; c < d; ++c) sum += product(at(i, c), at(j, c));
    return sum;
  };
  const auto norm = [&](index_t i) {
    float sum = 0;
    for (index_t c = 0; c < d; ++c) sum += square(at(i, c));
    return sum;
  };
  double worst = 0, sum = 0, pairs = 0;
  for (index_t j = 1; j < n; ++j)
    for (index_t i = 0; i < j; ++i) {
      double exact = 0, m = 0;
      for (index_t c = 0; c < d; ++c) {
        const double x = static_cast<double>(at(i, c)) - static_cast<double>(at(j, c));
        exact += x * x;
        m += 0.2 * x;
      }
      const float both = norm(i) + norm(j);
      float v = both - 2 * dot(i, j);
      if (mend && !(v > both * tile::cancelled)) v = static_cast<float>(exact);
      v = std::max(v, tile::least_v<float>);
      const double error = static_cast<double>(tile::plasticity(static_cast<float>(m), v)) - pair_plasticity(m, exact);
      worst = std::max(worst, std::abs(error));
      sum += error;
      ++pairs;
    }
  return {worst, std::abs(sum / pairs)};
}

TEST(tile_math, gram_tiles_of_split_operands_are_as_good_as_f32) {
  const auto exact_product = [](float x, float y) { return tile::split_product(tile::split_of(x), tile::split_of(y)); };
  const auto fast_product = [](float x, float y) {
    return static_cast<float>(bf16::round(x)) * static_cast<float>(bf16::round(y));
  };
  const auto exact_square = [](float x) { return tile::split_square(tile::split_of(x)); };
  const auto fast_square = [&](float x) { return fast_product(x, x); };
  const auto [worst, mean] = gram_errors(160, 128, exact_product, exact_square, true);
  const auto [fast_worst, fast_mean] = gram_errors(160, 128, fast_product, fast_square, true);
  RecordProperty("split_worst", std::to_string(worst));
  RecordProperty("fast_worst", std::to_string(fast_worst));
  EXPECT_LE(worst, 1e-4);  // a pair near the threshold of what is mended
  EXPECT_LE(mean, 1e-6);
  EXPECT_LE(fast_worst, 0.1);
  EXPECT_LE(fast_mean, 2e-3);
  EXPECT_GT(fast_mean, mean);
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

/// Calls each(key i, key j, span) for what the tiles of a plan visit, as the kernel does: i < j, both of one group and
/// admitted.
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
        const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
        if (i < j && group[a] == group[b] && admitted[a] && admitted[b]) each(i, j, span, t);
      }
  }
}

TEST(tile_plan, tiles_visit_every_pair_once_and_their_sums_are_found) {
  // Groups of no keys, one, a few, just a tile, more than one tile; the distribution admits some of the keys of each.
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
    score_distribution distribution;
    distribution.after = after;
    distribution.before = before;
    std::vector<bool> admitted;
    for (const std::int32_t t : groups.position) admitted.push_back(t < before && t > after);
    const tile::tile_plan plan(ranges_of(groups, distribution));
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

TEST(tile_plan, a_tile_finds_its_span_by_a_table_of_any_size) {
  std::vector<tile::tile_span> spans;
  std::vector<std::size_t> of;
  for (const index_t tiles : {1, 3, 1, 1, 700, 1, 2, 90, 1}) {
    spans.push_back({static_cast<index_t>(of.size()), 0, 0, 0, 0, static_cast<std::int32_t>(spans.size()), 0, 0});
    of.resize(of.size() + static_cast<std::size_t>(tiles), spans.size() - 1);
  }
  const auto tiles = static_cast<index_t>(of.size());
  for (const index_t most : {1, 3, 100, 799, 800, 801, 100000}) {
    const tile::span_table table(spans, tiles, most);
    EXPECT_LE(static_cast<index_t>(table.at.size()), most + 1);
    EXPECT_EQ(table.shift == 0, most >= tiles);
    for (std::size_t t = 0; t < of.size(); ++t)
      ASSERT_EQ(tile::span_of(spans.data(), table.at.data(), table.shift, static_cast<index_t>(t)).distribution, of[t])
          << most;
  }
}

TEST(drawn_pairs, every_pair_is_as_likely) {
  // 3 documents of 2, 3 and 5 keys, all before the query bucket: 14 pairs.
  keys_by_document groups;
  groups.offset = {0, 2, 5, 10};
  groups.position = {1, 2, 1, 2, 3, 1, 2, 3, 4, 5};
  groups.document = {0, 1, 2};
  score_distribution distribution;
  distribution.mean = {1};
  distribution.before = 10;
  std::map<std::array<index_t, 3>, int> seen;
  const int n = 13, seeds = 2000;
  for (int s = 0; s < seeds; ++s) {
    const auto d = backend::draw_pairs(groups, distribution, {n, static_cast<std::uint64_t>(s), 0}, 0, 0);
    ASSERT_FALSE(d.all);
    for (index_t g = 0; g < 3; ++g)
      for (auto i = d.offset[g]; i < d.offset[static_cast<std::size_t>(g) + 1]; ++i)
        ++seen[{g, d.pairs[i].i, d.pairs[i].j}];
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

TEST(drawn_pairs, numbers_of_pairs_go_back_and_forth) {
  std::int64_t r = 0;
  for (std::int32_t j = 1; j < 200; ++j)
    for (std::int32_t i = 0; i < j; ++i, ++r) {
      const auto p = pair_of_number(r);
      ASSERT_EQ(p.i, i);
      ASSERT_EQ(p.j, j);
    }
  const std::int64_t m = 3'000'000'000 / 3;
  const auto last = pair_of_number(m * (m - 1) / 2 - 1);
  EXPECT_EQ(last.i, m - 2);
  EXPECT_EQ(last.j, m - 1);
}

}  // namespace
