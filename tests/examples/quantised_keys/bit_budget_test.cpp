// SPDX-License-Identifier: MIT
#include "examples/quantised_keys/rounding_study.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::examples {
namespace {

const std::vector<cache_type> types{cache_type::q8_0, cache_type::q5_0, cache_type::q4_0};

// All 81 tables of four heads.
TEST(bit_budget, finds_the_cheapest_of_all_tables) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const random_stream draws{seed, 0, 0, draw::planted};
    std::vector<std::vector<double>> cost(4, std::vector<double>(3));
    for (std::size_t i = 0; i < 12; ++i) cost[i / 3][i % 3] = draws.uniform(i);
    for (const double budget : {4.5, 4.75, 5.3, 6.0, 7.6, 8.5, 40.0}) {
      double least = 1e9;
      for (int n = 0; n < 81; ++n) {
        double bits = 0, sum = 0;
        for (std::size_t h = 0, code = static_cast<std::size_t>(n); h < 4; ++h, code /= 3) {
          bits += bits_of(types[code % 3]) / 4;
          sum += cost[h][code % 3];
        }
        if (bits <= budget) least = std::min(least, sum);
      }
      const auto found = cheapest_table(types, cost, budget);
      EXPECT_NEAR(found.cost, least, 1e-12) << seed << ' ' << budget;
      double bits = 0, sum = 0;
      for (std::size_t h = 0; h < 4; ++h) {
        bits += bits_of(found.type[h]) / 4;
        for (std::size_t t = 0; t < 3; ++t)
          if (types[t] == found.type[h]) sum += cost[h][t];
      }
      EXPECT_DOUBLE_EQ(found.bits, bits);
      EXPECT_NEAR(found.cost, sum, 1e-12);
      EXPECT_LE(bits, budget);
    }
  }
}

// One head is ruined by four bits, the others lose nothing: it alone gets eight.
TEST(bit_budget, spends_bits_where_they_are_needed) {
  std::vector<std::vector<double>> cost(8, {0, 0, 0});
  cost[3] = {0.01, 0.4, 0.5};
  const auto found = cheapest_table(types, cost, 5);
  for (std::size_t h = 0; h < 8; ++h) EXPECT_EQ(found.type[h], h == 3 ? cache_type::q8_0 : cache_type::q4_0) << h;
  EXPECT_DOUBLE_EQ(found.bits, 5);
  EXPECT_DOUBLE_EQ(found.cost, 0.01);
  EXPECT_DOUBLE_EQ(cheapest_table(types, cost, 4.5).cost, 0.5);
}

TEST(bit_budget, refuses_what_cannot_be) {
  EXPECT_QKGEOM_ERROR("a budget of 4 bits is below the 4.5", cheapest_table(types, {{1, 1, 1}}, 4));
  EXPECT_QKGEOM_ERROR("key head 1 has 2 costs for 3 types", cheapest_table(types, {{1, 1, 1}, {1, 1}}, 5));
  EXPECT_QKGEOM_ERROR("is no number", cheapest_table(types, {{1, std::nan(""), 1}}, 5));
  EXPECT_QKGEOM_ERROR("needs a key head", cheapest_table(types, {}, 5));
}

}  // namespace
}  // namespace qkgeom::examples
