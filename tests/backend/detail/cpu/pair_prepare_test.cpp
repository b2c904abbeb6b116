// SPDX-License-Identifier: MIT
#include <boost/math/special_functions/erf.hpp>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

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

TEST(cpu_pair_math, f32_lanes_err_by_at_most_2e_7_and_are_never_negative) {
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

TEST(cpu_pair_math, erfc_of_f64_lanes_errs_by_at_most_1e_15_of_its_size) {
  for (double x = 0; x < 30; x += 0.0007) {
    const auto e = cpu::erfc_lanes(cpu::splat(x));
    const auto right = static_cast<double>(boost::math::erfc(static_cast<long double>(x)));
    for (int l = 0; l < cpu::lanes<double>; ++l)
      ASSERT_LE(std::abs(e[l] - right), std::max(1e-15 * right, 1e-322)) << x;
  }
  EXPECT_EQ(cpu::erfc_lanes(cpu::splat(std::numeric_limits<double>::infinity()))[0], 0);
}

}  // namespace
