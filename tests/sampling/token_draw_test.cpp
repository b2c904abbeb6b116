// SPDX-License-Identifier: MIT
#include "qkgeom/sampling/token_draw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace {

using namespace qkgeom;

TEST(draw_tokens, rate_is_the_expected_count_of_a_bucket) {
  const token_sampler s{.kind = sampler_kind::uniform, .bucket_size = 512, .rate = 24};
  std::map<index_t, int> count;
  const int documents = 400;
  for (std::uint32_t e = 0; e < documents; ++e)
    for (const std::int32_t t : draw_tokens(s, 8192, {.seed = 1, .document = e})) ++count[t / 512];
  ASSERT_EQ(count.size(), 16u);
  const double p = 24.0 / 512, sd = std::sqrt(documents * 512 * p * (1 - p));
  for (const auto& [b, n] : count) EXPECT_NEAR(n, documents * 24, 5 * sd) << b;
}

TEST(draw_tokens, log2_keeps_rate_tokens_a_bucket) {
  const token_sampler s{.kind = sampler_kind::log2, .bucket_size = 8, .rate = 4};
  std::map<int, double> count;
  for (std::uint32_t e = 0; e < 500; ++e)
    for (const std::int32_t t : draw_tokens(s, 4095, {.seed = 2, .document = e}))
      count[std::max(3, static_cast<int>(std::log2(t + 1)))] += 1.0 / 500;
  for (int b = 4; b < 12; ++b) EXPECT_NEAR(count[b], 4, 5 * std::sqrt(4.0 / 500)) << b;
}

TEST(draw_tokens, all_keeps_all_and_sides_are_independent) {
  EXPECT_EQ(draw_tokens({.kind = sampler_kind::all}, 100, {}).size(), 100u);
  const token_sampler s{.bucket_size = 16, .rate = 4};
  const auto q = draw_tokens(s, 1000, {.seed = 1, .use = draw::query_token}),
             k = draw_tokens(s, 1000, {.seed = 1, .use = draw::key_token});
  EXPECT_NE(q, k);
  EXPECT_EQ(q, draw_tokens(s, 1000, {.seed = 1, .use = draw::query_token}));
  // A longer document keeps the same tokens: entry t of the stream depends on t alone.
  auto longer = draw_tokens(s, 2000, {.seed = 1, .use = draw::query_token});
  longer.resize(q.size());
  EXPECT_EQ(longer, q);
  EXPECT_THROW(draw_tokens({.rate = 0}, 10, {}), error);
  EXPECT_THROW(draw_tokens({.bucket_size = 0}, 10, {}), error);
}

}  // namespace
