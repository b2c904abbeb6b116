// SPDX-License-Identifier: MIT
// Predictions from short captures: right on heads that do not depend on position, doubted on heads that do, and their
// intervals hold.
#include "examples/what_if/extrapolation.hpp"

#include "qkgeom/io/what_if.hpp"
#include "qkgeom/report/analyse.hpp"
#include "qkgeom/rotary/stationary.hpp"
#include "qkgeom/stats/interval.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/io/planted_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::examples {
namespace {
using test::ctx;
using test::planted_capture;

model_report report_of(const capture_set& source) {
  return analyse(ctx, source, {.covariances = {covariance_kind::joint}, .empirical = false, .heatmap = false});
}

/// The check of a capture against itself from its first half, quarter and eighth.
self_check check_of(const capture_set& source, const model_report& whole) {
  const index_t length = source.manifest().context_length;
  std::vector<short_prediction> parts;
  for (const index_t factor : {2, 4, 8})
    parts.push_back(
        {static_cast<double>(factor), report_of(what_if(source.before(length / factor), {.context_length = length}))});
  return check_predictions(whole, parts);
}

TEST(extrapolation, heads_that_do_not_depend_on_position_are_predicted_64_times_as_far) {
  const test::scratch_folder folder;
  const index_t short_context = 256, layers = 24;
  planted_capture{.context = short_context, .documents = 24, .rows = 256, .layers = layers}.write(folder / "short");
  planted_capture{.context = 64 * short_context, .documents = 24, .rows = 256, .layers = layers, .seed = 2}.write(
      folder / "long");
  const auto source = capture_set::open({folder / "short"});
  const auto captured = report_of(source), truth = report_of(capture_set::open({folder / "long"}));
  const auto predicted = report_of(what_if(source, {.context_length = 64 * short_context}));
  const auto check = check_of(source, captured);
  const auto heads = extrapolate(predicted, check, 64);
  std::size_t inside = 0, all = 0;
  for (std::size_t h = 0; h < heads.size(); ++h)
    for (std::size_t i = 0; i < carried_numbers.size(); ++i) {
      const auto real = carried_numbers[i].of(truth.heads[h]);
      ASSERT_TRUE(std::isfinite(real.value)) << h << ' ' << carried_numbers[i].name;
      inside += std::abs(heads[h][i].value - real.value) <= half_width(heads[h][i], interval_miss);
      ++all;
    }
  EXPECT_GT(inside, 8 * all / 10) << inside << " of " << all;
  // What is predicted is another thing than what was captured, and near the truth in itself.
  double moved = 0, missed = 0;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    moved += std::abs(captured.heads[h].summaries[0].overall.value - truth.heads[h].summaries[0].overall.value);
    missed += std::abs(predicted.heads[h].summaries[0].overall.value - truth.heads[h].summaries[0].overall.value);
  }
  EXPECT_LT(missed, 0.25 * moved);
}

TEST(extrapolation, heads_that_drift_fail_the_check) {
  const test::scratch_folder folder;
  planted_capture{.context = 256, .documents = 12, .rows = 128, .layers = 4}.write(folder / "steady");
  planted_capture{.context = 256, .documents = 12, .rows = 128, .layers = 4, .drift = 8, .growth = 1}.write(folder /
                                                                                                            "drifting");
  const auto width = [&](const char* name) {
    const auto source = capture_set::open({folder / name});
    const auto whole = report_of(source);
    const auto heads = extrapolate(whole, check_of(source, whole), 16);
    double sum = 0;
    for (const auto& h : heads) sum += half_width(h[3], interval_miss);
    return sum / static_cast<double>(heads.size());
  };
  const double steady = width("steady"), drifting = width("drifting");
  EXPECT_GT(drifting, 2 * steady) << steady << ' ' << drifting;
}

TEST(extrapolation, an_error_is_what_the_check_missed_and_grows_with_the_doublings) {
  const auto report_with = [](double bias) {
    model_report r;
    for (index_t h = 0; h < 2; ++h) {
      r.heads.emplace_back();
      r.heads.back().q_head = h;
      r.heads.back().rotation.bias.context_logits = bias * static_cast<double>(h + 1);
    }
    return r;
  };
  const auto check =
      check_predictions(report_with(1), {{2, report_with(1.1)}, {4, report_with(1 + 0.1 * std::sqrt(2.0))}});
  EXPECT_EQ(check.same_class[0], (std::vector<bool>{true, true}));
  const auto heads = extrapolate(report_with(3), check, 16);
  // Misses over the root of the doublings are 0.1 for head 0 and 0.2 for head 1; the mean square of both is 0.025.
  const double of_all = 0.025, own = 0.01;
  EXPECT_NEAR(heads[0][4].error, 2 * std::sqrt((shared_misses * of_all + 2 * own) / (shared_misses + 2)), 1e-12);
  EXPECT_EQ(heads[0][4].freedom, 4);
  EXPECT_TRUE(std::isnan(heads[0][0].error)) << "no profile, no error";
  const auto mean = extrapolate_mean(report_with(3), check, 16, {0, 1});
  EXPECT_DOUBLE_EQ(mean[4].value, 4.5);
  EXPECT_NEAR(mean[4].error, 2 * 0.15, 1e-12);
  EXPECT_QKGEOM_ERROR("predicts nothing", check_predictions(report_with(1), {{1, report_with(1)}}));
  EXPECT_QKGEOM_ERROR("0 heads are predicted", check_predictions(report_with(1), {{2, {}}}));
}

TEST(extrapolation, the_error_of_a_miss_is_no_miss) {
  const auto error_with = [](double noise) {
    return widened({{0.5, 0.03, 5}}, {{2}, {{{0.1, noise, 5}}}, {true}}, 2)[0].error;
  };
  EXPECT_NEAR(error_with(std::numeric_limits<double>::quiet_NaN()), std::hypot(0.1, 0.03), 1e-15);
  EXPECT_NEAR(error_with(0.06), std::hypot(0.08, 0.03), 1e-15);
  EXPECT_EQ(error_with(0.2), 0.03);
}

TEST(extrapolation, moments_alone_give_what_the_rows_give) {
  const test::scratch_folder folder;
  const planted_capture planted{.context = 512, .documents = 24, .rows = 256, .layers = 6, .stage = "pre"};
  planted.write(folder / "c");
  const auto source = capture_set::open({folder / "c"});
  const index_t length = 8192;
  const auto by_rows = report_of(what_if(source, {.context_length = length, .keep_first = 0}));
  for (const auto& h : by_rows.heads) {
    const auto layer = source.read_layer(h.layer);
    const auto before = accumulate(ctx, layer.view<float>(), uniform_buckets{512}, {.context_length = 512});
    const auto buckets = uniform_buckets{length / 16}.edges(length);
    const auto moments = stationary_moments(before, planted.rope(), buckets);
    const auto rotation = planar_rotation(ctx, moments, {.context_length = length})[0];
    EXPECT_NEAR(rotation.q.r, h.rotation.q.r, 0.03);
    EXPECT_NEAR(rotation.k.r, h.rotation.k.r, 0.03);
    EXPECT_NEAR(rotation.bias.context_logits, h.rotation.bias.context_logits,
                0.05 * (1 + std::abs(h.rotation.bias.context_logits)));
    const auto profile = stationary_profile(ctx, before, planted.rope(), buckets)[0];
    const auto summary = summarize(profile, length);
    const auto near = [](const estimate& a, const estimate& b) {
      return std::abs(a.value - b.value) < 0.01 + 4 * std::hypot(a.error, b.error);
    };
    EXPECT_TRUE(near(summary.overall, h.summaries[0].overall))
        << summary.overall.value << ' ' << h.summaries[0].overall.value;
    EXPECT_TRUE(near(summary.drop, h.summaries[0].drop)) << summary.drop.value << ' ' << h.summaries[0].drop.value;
  }
}

}  // namespace
}  // namespace qkgeom::examples
