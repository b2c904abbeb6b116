// SPDX-License-Identifier: MIT
#include "qkgeom/sampling/token_draw.hpp"

#include "qkgeom/sampling/head_draw.hpp"
#include "tests/common/testing.hpp"

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

TEST(draw_heads, without_replacement_and_even) {
  std::map<head_id, int> count;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto heads = draw_heads({1, 5, 6}, 4, 5, seed);
    ASSERT_EQ(heads.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      if (i > 0) {
        ASSERT_LT(heads[i - 1], heads[i]);
      }
      ++count[heads[i]];
    }
  }
  ASSERT_EQ(count.size(), 12u);
  for (const auto& [h, n] : count) EXPECT_NEAR(n, 2000 * 5.0 / 12, 5 * std::sqrt(2000 * 5.0 / 12 * 7 / 12));
  EXPECT_EQ(draw_heads({0}, 3, 100, 1).size(), 3u);
}

TEST(key_head, grouped_query_attention) {
  for (index_t h = 0; h < 8; ++h) EXPECT_EQ(key_head_of(h, 8, 2), h / 4);
  EXPECT_THROW(key_head_of(0, 7, 2), error);
  EXPECT_THROW(key_head_of(8, 8, 2), error);
}

}  // namespace
