// SPDX-License-Identifier: MIT
#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

#include <Random123/philox.h>

namespace {

using namespace qkgeom;

TEST(philox, equals_random123) {
  r123::Philox4x32 oracle;
  std::uint32_t x = 1;
  const auto next = [&] { return x = x * 1664525u + 1013904223u; };
  for (int i = 0; i < 1000; ++i) {
    const std::array<std::uint32_t, 4> c{next(), next(), next(), next()};
    const std::array<std::uint32_t, 2> key{next(), next()};
    const auto want =
        oracle(r123::Philox4x32::ctr_type{{c[0], c[1], c[2], c[3]}}, r123::Philox4x32::key_type{{key[0], key[1]}});
    const auto got = (qkgeom::philox4x32)(c, key);  // Random123 has a macro of this name
    for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(got[w], want[w]);
  }
}

TEST(random_stream, streams_differ_and_repeat) {
  std::set<std::uint32_t> seen;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 40})
    for (std::uint32_t document : {0u, 1u})
      for (std::uint32_t layer : {0u, 1u})
        for (draw use : {draw::query_token, draw::key_token, draw::head}) {
          const random_stream s{seed, document, layer, use};
          EXPECT_EQ(s.bits(7), (random_stream{seed, document, layer, use}).bits(7));
          seen.insert(s.bits(7)[0]);
        }
  EXPECT_EQ(seen.size(), 36u);
}

TEST(random_stream, uniform_has_the_moments_of_the_uniform_distribution) {
  const random_stream s{.seed = 5};
  const int n = 200000;
  double sum = 0, square = 0, lowest = 1, highest = 0;
  for (int i = 0; i < n; ++i) {
    const double u = s.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    square += u * u;
    lowest = std::min(lowest, u);
    highest = std::max(highest, u);
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(square / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / n));
  EXPECT_LT(lowest, 1e-3);
  EXPECT_GT(highest, 1 - 1e-3);
}

TEST(random_stream, below_is_even) {
  const random_stream s{.seed = 9};
  std::array<int, 7> count{};
  for (std::uint64_t i = 0; i < 70000; ++i) ++count[s.below(i, 7)];
  for (const int c : count) EXPECT_NEAR(c, 10000, 5 * std::sqrt(10000 * 6.0 / 7));
}

}  // namespace
