// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/core/random.hpp"

namespace {

using namespace qkgeom;

TEST(largest_value, of_bf16_is_that_of_the_same_values_in_f64) {
  constexpr index_t rows = 70, heads = 3;
  thread_pool pool(2);
  const random_stream draws{.seed = 3, .use = draw::planted};
  for (const index_t dim : {1, 5, 16, 35, 64}) {
    for (index_t place = 0; place < rows * heads * dim; place += 97) {
      std::vector<bf16> narrow;
      for (index_t i = 0; i < rows * heads * dim; ++i) narrow.push_back(round_to<bf16>(draws.normal(i)));
      narrow[place] = round_to<bf16>(-100.0);
      narrow[(place + 1) % narrow.size()] = round_to<bf16>(std::numeric_limits<double>::quiet_NaN());
      const std::vector<double> wide(narrow.begin(), narrow.end());
      const tensor_view<const bf16> x{narrow.data(), rows, heads, dim, heads * dim, dim};
      const tensor_view<const double> y{wide.data(), rows, heads, dim, heads * dim, dim};
      EXPECT_EQ(cpu::largest_value(pool, cpu::widened(x)), 100) << dim << ' ' << place;
      EXPECT_EQ(cpu::largest_value(pool, cpu::widened(y)), 100) << dim << ' ' << place;
    }
  }
  const auto infinity = round_to<bf16>(-std::numeric_limits<double>::infinity());
  EXPECT_EQ(cpu::largest_value(pool, cpu::widened(tensor_view<const bf16>{&infinity, 1, 1, 1, 1, 1})), HUGE_VAL);
}

TEST(lane_sums, add_up_each_lane_in_f64) {
  cpu::lane_sums<float> sum;
  cpu::vec<float> x{};
  double want = 0;
  for (int l = 0; l < cpu::lanes<float>; ++l) {
    x[l] = 1 + std::ldexp(1.0f, -20) * static_cast<float>(1 << l % 8);
    want += 3 * static_cast<double>(x[l]);
  }
  for (int i = 0; i < 3; ++i) sum.add(x);
  EXPECT_EQ(sum.value(), want);
}

}  // namespace
