// SPDX-License-Identifier: MIT
// Pairs of keys that rounding flips: against a plain count, and on planted heads whose answer is known.
#include "qkgeom/plasticity/rounded_keys.hpp"
#include "tests/common/on_cpu.hpp"

#include <numbers>

namespace {

using namespace qkgeom;
using test::ctx;

constexpr index_t length = 1024;
const bucket_edges edges = uniform_buckets{256}.edges(length);

planted_rows<float> planted(index_t rows = 60, std::uint64_t seed = 3) {
  return plant<float>(planted_head{.dim = 32, .context_length = length, .documents = 6, .rows = rows, .seed = seed});
}
rounding_effect effect_on(const head_view<float>& head, cache_type t, const rounding_options& options = {}) {
  return rounding_effects(ctx, as_layer(head), {t}, edges, length, options)[0][0];
}
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// Every query against every pair, as the definition says it.
TEST(rounded_keys, agree_with_a_plain_count) {
  auto rows = planted();
  const auto one = rows.view();
  const index_t n = one.k.rows;
  for (const std::optional<index_t> window : {std::optional<index_t>{}, std::optional<index_t>{300}}) {
    auto head = one;
    head.window = window;
    // Two query heads of one key head: the second has the queries doubled.
    std::vector<float> twice;
    for (index_t i = 0; i < n; ++i)
      for (const float factor : {1.0f, 2.0f})
        for (index_t c = 0; c < 32; ++c) twice.push_back(factor * one.q(i, c));
    layer_view<float> layer = as_layer(head);
    layer.q = packed_tensor<const float>(twice.data(), n, 2, 32);
    layer.key_of_query = {0, 0};
    const double scale = 0.5, cap = 3;
    const auto found = rounding_effects(ctx, layer, {cache_type::q8_0, cache_type::q4_0}, edges, length,
                                        {.max_queries = 10000, .score_scale = scale, .score_cap = cap});
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(found[0].size(), 2u);
    std::vector<float> rounded(rows.k.size());
    round_as_cached(cache_type::q4_0, rows.k.data(), static_cast<index_t>(rows.k.size()), rounded.data());
    double queries = 0, share = 0, weight = 0, weighted = 0, moved = 0, near_pairs = 0, near_flips = 0;
    for (index_t h = 0; h < 2; ++h)
      for (index_t i = 0; i < n; ++i) {
        std::vector<double> s, r, p, pr;
        std::vector<index_t> t;
        double sum = 0, sum_r = 0;
        for (index_t j = 0; j < n; ++j) {
          const index_t back = one.q_position[i] - one.k_position[j];
          if (one.k_document[j] != one.q_document[i] || back < 0 || (window && back >= *window)) continue;
          double a = 0, b = 0;
          for (index_t c = 0; c < 32; ++c) {
            const double x = (h == 0 ? 1 : 2) * static_cast<double>(one.q(i, c));
            a += x * static_cast<double>(one.k(j, c));
            b += x * static_cast<double>(rounded[static_cast<std::size_t>(j * 32 + c)]);
          }
          s.push_back(a);
          r.push_back(b);
          t.push_back(one.k_position[j]);
          p.push_back(std::exp(cap * std::tanh(scale * a / cap)));
          pr.push_back(std::exp(cap * std::tanh(scale * b / cap)));
          sum += p.back();
          sum_r += pr.back();
        }
        if (s.size() < 2) continue;
        double flips = 0, pairs = 0;
        for (std::size_t x = 0; x < s.size(); ++x) {
          moved += 0.5 * std::abs(p[x] / sum - pr[x] / sum_r);
          for (std::size_t y = 0; y < x; ++y) {
            const double flip = 0.5 * std::abs(sign(s[x] - s[y]) - sign(r[x] - r[y]));
            const double w = p[x] * p[y] / (sum * sum);
            flips += flip;
            ++pairs;
            weight += w;
            weighted += w * flip;
            if (const auto apart = std::abs(t[x] - t[y]); apart >= 64 && apart < 128) {
              ++near_pairs;
              near_flips += flip;
            }
          }
        }
        ++queries;
        share += flips / pairs;
      }
    const auto& e = found[0][1];
    EXPECT_EQ(e.type, cache_type::q4_0);
    EXPECT_NEAR(e.flipped.value, share / queries, 1e-12);
    EXPECT_NEAR(e.weighted.value, weighted / weight, 1e-12);
    EXPECT_NEAR(e.mass.value, 2 * weighted / queries, 1e-12);
    EXPECT_NEAR(e.moved.value, moved / queries, 1e-12);
    EXPECT_GT(e.flipped.value, 5 * found[0][0].flipped.value);
    EXPECT_EQ(e.documents.size(), 6u);
    EXPECT_GT(e.flipped.error, 0);
    bool seen = false;
    for (const auto& b : e.distances)
      if (b.start == 64) {
        seen = true;
        EXPECT_EQ(b.end, 128);
        EXPECT_EQ(b.pairs, near_pairs);
        EXPECT_NEAR(b.flipped.value, near_flips / near_pairs, 1e-12);
      }
    EXPECT_TRUE(seen);
  }
}

TEST(rounded_keys, on_the_grid_of_their_type_flip_nothing) {
  auto rows = planted();
  for (std::size_t i = 0; i < rows.k.size(); ++i)
    rows.k[i] = i % 32 == 0 ? -2.0f : 0.25f * std::clamp(std::round(4 * rows.k[i]), -7.0f, 7.0f);
  const auto e = effect_on(rows.view(), cache_type::q4_0);
  EXPECT_EQ(e.flipped.value, 0);
  EXPECT_EQ(e.weighted.value, 0);
  EXPECT_EQ(e.moved.value, 0);
  EXPECT_EQ(e.flipped.error, 0);
  const auto others = planted();
  EXPECT_GT(effect_on(others.view(), cache_type::q4_0).flipped.value, 0.01);
}

// One coordinate decides and its steps are far above the rounding error of all others together.
TEST(rounded_keys, with_margins_above_the_error_flip_nothing) {
  auto rows = planted(20);
  for (std::size_t i = 0; i < rows.q.size(); ++i) rows.q[i] = i % 32 == 0 ? 1.0f : 0.001f * rows.q[i];
  for (std::size_t i = 0; i < rows.k.size(); ++i)
    rows.k[i] = i % 32 == 0 ? static_cast<float>(i / 32 % 20) - 10 : 0.1f * rows.k[i];
  EXPECT_EQ(effect_on(rows.view(), cache_type::q8_0).flipped.value, 0);
  EXPECT_EQ(effect_on(rows.view(), cache_type::q5_0).flipped.value, 0);
  EXPECT_GT(effect_on(rows.view(), cache_type::q8_0).moved.value, 0);
}

// A coordinate of 100 makes q4_0's step 12.5: the others, below 6.25, are lost, all keys tie, and a tie counts one
// half. q8_0's step is 100 / 127, and most of the order is left; without the outlier it is left to q4_0 too.
TEST(rounded_keys, one_outlier_ruins_a_block_of_four_bits) {
  auto rows = planted();
  const double without = effect_on(rows.view(), cache_type::q4_0).flipped.value;
  for (std::size_t i = 0; i < rows.k.size(); i += 32) rows.k[i] = 100;
  const auto e = effect_on(rows.view(), cache_type::q4_0);
  EXPECT_EQ(e.flipped.value, 0.5);
  EXPECT_EQ(e.weighted.value, 0.5);
  EXPECT_LT(effect_on(rows.view(), cache_type::q8_0).flipped.value, 0.15);
  EXPECT_LT(without, 0.15);
}

// Scores and their errors are nearly Gaussian with deviations sigma |q| and tau |q|: a pair is flipped with probability
// arctan(tau / sigma) / pi. tau^2 is the mean of step^2 / 12 over values but those that the grid begins or ends at.
TEST(rounded_keys, of_gaussian_keys_flip_as_the_angle_of_error_and_score_says) {
  const auto rows = planted(200, 5);
  double bytes = 0, five_bits = 0;  // tau^2
  for (auto k = rows.k.begin(); k != rows.k.end(); k += 32) {
    const auto [low, high] = std::minmax_element(k, k + 32);
    const double l = *low, h = *high, most = std::max(-l, h), blocks = static_cast<double>(rows.k.size() / 32);
    bytes += most * most / (127 * 127 * 12) * 31 / 32 / blocks;
    five_bits += (h - l) * (h - l) / (31 * 31 * 12) * 30 / 32 / blocks;
  }
  for (const auto& [type, variance] : {std::pair{cache_type::q8_0, bytes}, std::pair{cache_type::q5_1, five_bits}}) {
    const auto e = effect_on(rows.view(), type, {.max_queries = 400});
    const double want = std::atan(std::sqrt(variance)) / std::numbers::pi;
    EXPECT_NEAR(e.flipped.value, want, 0.03 * want) << name_of(type);
  }
}

TEST(rounded_keys, refuse_what_cannot_be_stored) {
  const auto odd = plant<float>(planted_head{.dim = 20, .context_length = length, .documents = 3, .rows = 8});
  EXPECT_QKGEOM_ERROR("keys of 20 values cannot be stored as q5_1",
                      rounding_effects(ctx, as_layer(odd.view()), {cache_type::q5_1}, edges, length));
  EXPECT_LT(rounding_effects(ctx, as_layer(odd.view()), {cache_type::bf16}, edges, length)[0][0].flipped.value, 0.05);
  auto rows = planted(8);
  rows.k[5] = -1e5f;
  EXPECT_QKGEOM_ERROR("keys rounded to q4_1 overflow", effect_on(rows.view(), cache_type::q4_1, {.max_queries = 1000}));
}

}  // namespace
