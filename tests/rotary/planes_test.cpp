// SPDX-License-Identifier: MIT
#include "qkgeom/rotary/planes.hpp"
#include "qkgeom/rotary/order_stability.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "tests/common/data_files.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

const captured_rope planes_rope{"half", 8, 1, {1, 0.1, 0.01, 0.0005}};

planted_rows<double> rows_with(std::vector<double> mean_q, std::vector<double> mean_k, index_t length) {
  return plant(planted_head{.dim = 10,
                            .context_length = length,
                            .documents = 40,
                            .rows = 300,
                            .mean_q = std::move(mean_q),
                            .mean_k = std::move(mean_k)});
}

TEST(planes, bands_are_by_turns) {
  EXPECT_DOUBLE_EQ(turns_of(2 * std::numbers::pi / 100, 1000), 10);
  EXPECT_EQ(band_of(10), rotary_band::often);
  EXPECT_EQ(band_of(1), rotary_band::about_once);
  EXPECT_EQ(band_of(0.2), rotary_band::hardly);
}

TEST(planes, mean_scores_by_distance_are_those_of_the_means) {
  const auto rows = rows_with({0, 0, 2, 1, 0, 0, 1, 0, 0.5, 0}, {0, 0, 1, -2, 0, 0, -1, 0, 1, 0}, 2048);
  const auto found = planes_of(ctx, as_layer(rows.view()), planes_rope, 2048)[0];
  ASSERT_GT(found.distances.size(), 8u);
  double moved = 0;
  for (const auto& b : found.distances) {
    EXPECT_LT(std::abs(b.observed.value - b.predicted), 4.5 * b.observed.error) << b.start;
    moved = std::max(moved, std::abs(b.predicted - found.distances[0].predicted));
  }
  EXPECT_GT(moved, 1) << "scores depend on the distance";
}

TEST(planes, shares_of_variance_add_up_and_stand_where_the_variance_is) {
  const auto rows = rows_with({6, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {6, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 512);
  const auto found = planes_of(ctx, as_layer(rows.view()), planes_rope, 512)[0];
  ASSERT_EQ(found.planes.size(), 4u);
  double sum = found.rest.value;
  for (const auto& p : found.planes) sum += p.variance.value;
  EXPECT_NEAR(sum, 1, 1e-12);
  // Plane 0 has means of 6, whose product 36 a random phase rotates: variance 36^2 / 2; each mean meets the other
  // side's noise: 36 + 36; noise meets noise: 2, as in each of the other planes and in the two coordinates outside the
  // planes.
  const double first = (36 * 36) / 2.0 + 36 + 36 + 2;
  EXPECT_NEAR(found.planes[0].variance.value, first / (first + 4 * 2), 5 * found.planes[0].variance.error + 0.002);
  EXPECT_NEAR(found.planes[0].concentration_q, 6 / 6.084, 0.01);  // mean length of N(6, 1) x N(0, 1) is 6.084
  EXPECT_LT(found.planes[2].concentration_q, 0.05);
}

TEST(planes, of_a_layer_without_rotary_embedding_are_none) {
  const auto rows = rows_with({}, {}, 512);
  const auto found = planes_of(ctx, as_layer(rows.view()), std::nullopt, 512)[0];
  EXPECT_TRUE(found.planes.empty());
  EXPECT_NEAR(found.rest.value, 1, 1e-12);
  EXPECT_QKGEOM_ERROR("rotates 12 coordinates of heads of 10",
                      planes_of(ctx, as_layer(rows.view()), captured_rope{"half", 12, 1, {1, 1, 1, 1, 1, 1}}, 512));
}

TEST(planes, a_window_leaves_distant_keys_out) {
  const auto rows = rows_with({}, {}, 2048);
  auto layer = as_layer(rows.view());
  layer.window = 64;
  const auto found = planes_of(ctx, layer, planes_rope, 2048)[0];
  ASSERT_FALSE(found.distances.empty());
  EXPECT_LE(found.distances.back().start, 63);
}

TEST(vector_rotation, rotates_the_planes_of_its_style_and_leaves_the_rest) {
  const captured_rope half{"half", 4, 1, {0.5, 0.01}}, pairs{"interleaved", 4, 1, {0.5, 0.01}};
  const std::array<double, 6> row{1, 2, 3, 4, 5, 6};
  auto x = row, y = row;
  vector_rotation(half, 10)(x.data());
  vector_rotation(pairs, 10)(y.data());
  const double c = std::cos(5), s = std::sin(5), c1 = std::cos(0.1), s1 = std::sin(0.1);
  const std::array<double, 6> as_halves{c - 3 * s, 2 * c1 - 4 * s1, s + 3 * c, 2 * s1 + 4 * c1, 5, 6},
      as_pairs{c - 2 * s, s + 2 * c, 3 * c1 - 4 * s1, 3 * s1 + 4 * c1, 5, 6};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(x[i], as_halves[i], 1e-15) << i;
    EXPECT_NEAR(y[i], as_pairs[i], 1e-15) << i;
  }
}

TEST(vector_rotation, begins_at_the_first_coordinate_of_the_embedding) {
  for (const char* style : {"half", "interleaved"}) {
    const captured_rope whole{style, 4, 1, {0.5, 0.01}}, part{style, 4, 1, {0.5, 0.01}, 3};
    const std::array<double, 8> row{1, 2, 3, 4, 5, 6, 7, 8};
    auto x = row, y = row;
    vector_rotation(part, 10)(x.data());
    vector_rotation(whole, 10)(y.data() + 3);
    EXPECT_EQ(x, y) << style;
    EXPECT_EQ(x[2], 3) << style;
    EXPECT_QKGEOM_ERROR("do not rotate the same planes", vector_rotation::between(&whole, 0, part, 0));
  }
}

TEST(vector_rotation, leads_from_one_embedding_and_position_to_another) {
  const captured_rope first{"half", 4, 1.5, {0.5, 0.01}}, second{"half", 4, 2, {0.25, 0.03}};
  std::array<double, 4> x{1, -2, 3, 4}, direct = x;
  vector_rotation::between(nullptr, 0, first, 7)(x.data());
  EXPECT_NEAR(x[0], 1.5 * (std::cos(3.5) - 3 * std::sin(3.5)), 1e-14);
  vector_rotation::between(&first, 7, second, 11)(x.data());
  vector_rotation::between(nullptr, 0, second, 11)(direct.data());
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(x[i], direct[i], 1e-14) << i;
  const captured_rope other{"interleaved", 4, 1, {0.5, 0.01}};
  EXPECT_QKGEOM_ERROR("do not rotate the same planes", vector_rotation::between(&first, 0, other, 0));
}

score_series difference(score_series a, const score_series& b) {
  for (std::size_t f = 0; f < a.planes.size(); ++f) a.planes[f] -= b.planes[f];
  a.still -= b.still;
  return a;
}

TEST(order_stability, scores_are_those_of_rope_profiler) {
  for (const auto& c : test::json_data("order-scores.json")) {
    const captured_rope rope{c["style"], 2 * std::ssize(c["inv_freq"]), c["attention_factor"], c["inv_freq"]};
    const virtual_distances distances(rope.inv_freq, c["window"], c["window"]);
    double semantic = 0, positional = 0, n = 0, pairs = 0;
    for (const std::vector<double> q : c["q"]) {
      score_series last;
      for (const std::vector<double> k : c["k"]) {
        auto s = series_of(q.data(), k.data(), c["d"], rope);
        positional += distances.mean_step(s);
        ++pairs;
        if (!last.planes.empty()) semantic += 1 - distances.normal_reversals(difference(last, s)), ++n;
        last = std::move(s);
      }
    }
    EXPECT_NEAR(semantic / n, c["semantic"].get<double>(), 1e-9) << c["window"];
    EXPECT_NEAR(positional / pairs, c["positional"].get<double>(), 1e-9) << c["window"];
  }
}

TEST(order_stability, counts_what_the_normal_formula_approximates) {
  // One plane of 10 turns within the window: cos > 0 at half of the distances; its values are no normal ones.
  const virtual_distances one({2 * std::numbers::pi / 100}, 1000, 1000);
  EXPECT_NEAR(one.counted_reversals({{1}, 0}), 0.5, 0.012);
  EXPECT_NEAR(one.normal_reversals({{1}, 0}), 0.5, 1e-9);
  EXPECT_NEAR(one.counted_reversals({{1}, std::sqrt(0.5)}), 0.25, 0.012);
  EXPECT_NEAR(one.normal_reversals({{1}, std::sqrt(0.5)}), 0.5 * std::erfc(std::sqrt(0.5)), 1e-6);
  EXPECT_EQ(one.counted_reversals({{1}, 2}), 0);
  EXPECT_TRUE(std::isnan(one.normal_reversals({{1}, -1})) && std::isnan(one.counted_reversals({{1}, -1})));
  // Of drawn distances, the share is as near.
  const virtual_distances some({2 * std::numbers::pi / 100}, 1'000'000, 512);
  EXPECT_NEAR(some.counted_reversals({{1}, std::sqrt(0.5)}), 0.25, 0.02);
}

TEST(order_stability, of_content_is_whole_and_of_fast_planes_a_half) {
  const auto rows = plant(planted_head{.dim = 4, .context_length = 512, .documents = 8, .rows = 200});
  const auto layer = as_layer(rows.view());
  const stability_options options{.windows = {4096, 65536}, .queries = 16};
  const auto content = order_stability_of(ctx, layer, std::nullopt, options)[0];
  EXPECT_EQ(content[0].semantic.value, 1);
  EXPECT_EQ(content[1].counted.value, 1);
  EXPECT_TRUE(std::isnan(content[0].steps.value));
  const auto fast = order_stability_of(ctx, layer, captured_rope{"half", 4, 1, {1, 0.3}}, options)[0];
  const auto slow = order_stability_of(ctx, layer, captured_rope{"half", 4, 1, {1e-3, 1e-9}}, options)[0];
  EXPECT_LT(std::abs(fast[0].semantic.value - 0.5), 4 * fast[0].semantic.error + 0.01);
  EXPECT_LT(std::abs(fast[0].counted.value - 0.5), 4 * fast[0].counted.error + 0.01);
  EXPECT_GT(slow[0].counted.value, 0.6);
  EXPECT_GT(fast[0].steps.value, 100 * slow[0].steps.value);
  EXPECT_QKGEOM_ERROR("rotates 6 coordinates of heads of 4",
                      order_stability_of(ctx, layer, captured_rope{"half", 6, 1, {1, 1, 1}}, options));
  EXPECT_QKGEOM_ERROR("a window of 1 tokens", order_stability_of(ctx, layer, std::nullopt, {.windows = {1}}));
}

}  // namespace
