// SPDX-License-Identifier: MIT
// The parts of the CPU's pair kernels.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "qkgeom/backend/detail/cpu_pair_draws.hpp"
#include "qkgeom/backend/detail/cpu_pair_math.hpp"
#include "qkgeom/core/pair_formula.hpp"

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

TEST(drawn_pairs, every_pair_is_as_likely) {
  // 3 documents of 2, 3 and 5 keys, all before the query bucket: 14 pairs.
  key_groups groups;
  groups.offset = {0, 2, 5, 10};
  groups.position = {1, 2, 1, 2, 3, 1, 2, 3, 4, 5};
  groups.example = {0, 1, 2};
  score_law law;
  law.mean = {1};
  law.before = 10;
  std::map<std::array<index_t, 3>, int> seen;
  const int n = 13, seeds = 2000;
  for (int s = 0; s < seeds; ++s) {
    const auto d = cpu::draw_pairs(groups, law, {n, static_cast<std::uint64_t>(s), 0}, 0, 0);
    ASSERT_FALSE(d.all);
    for (index_t g = 0; g < 3; ++g)
      for (auto i = d.offset[static_cast<std::size_t>(g)]; i < d.offset[static_cast<std::size_t>(g) + 1]; ++i)
        ++seen[{g, d.pairs[static_cast<std::size_t>(i)].i, d.pairs[static_cast<std::size_t>(i)].j}];
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
      const auto p = cpu::pair_of_number(r);
      ASSERT_EQ(p.i, i);
      ASSERT_EQ(p.j, j);
    }
  const std::int64_t m = 3'000'000'000 / 3;
  const auto last = cpu::pair_of_number(m * (m - 1) / 2 - 1);
  EXPECT_EQ(last.i, m - 2);
  EXPECT_EQ(last.j, m - 1);
}

}  // namespace
