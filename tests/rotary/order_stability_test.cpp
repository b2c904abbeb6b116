// SPDX-License-Identifier: MIT
#include "qkgeom/rotary/order_stability.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;

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
  cpu_context cpu{{.threads = 2}};
  const auto rows = plant(planted_head{.dim = 4, .context_length = 512, .documents = 8, .rows = 200});
  const auto layer = as_layer(rows.view());
  const stability_options options{.windows = {4096, 65536}, .queries = 16};
  const auto content = order_stability_of(cpu, layer, std::nullopt, options)[0];
  EXPECT_EQ(content[0].semantic.value, 1);
  EXPECT_EQ(content[1].counted.value, 1);
  EXPECT_TRUE(std::isnan(content[0].steps.value));
  const auto fast = order_stability_of(cpu, layer, captured_rope{"half", 4, 1, {1, 0.3}}, options)[0];
  const auto slow = order_stability_of(cpu, layer, captured_rope{"half", 4, 1, {1e-3, 1e-9}}, options)[0];
  EXPECT_LT(std::abs(fast[0].semantic.value - 0.5), 4 * fast[0].semantic.error + 0.01);
  EXPECT_LT(std::abs(fast[0].counted.value - 0.5), 4 * fast[0].counted.error + 0.01);
  EXPECT_GT(slow[0].counted.value, 0.6);
  EXPECT_GT(fast[0].steps.value, 100 * slow[0].steps.value);
  EXPECT_QKGEOM_ERROR("rotates 6 coordinates of heads of 4",
                      order_stability_of(cpu, layer, captured_rope{"half", 6, 1, {1, 1, 1}}, options));
  EXPECT_QKGEOM_ERROR("a window of 1 tokens", order_stability_of(cpu, layer, std::nullopt, {.windows = {1}}));
}

}  // namespace
