// SPDX-License-Identifier: MIT
#include "examples/common/numbers/head_values.hpp"

#include "examples/dynamics/trajectory.hpp"
#include "qkgeom/report/analyse.hpp"
#include "qkgeom/stats/quantile.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::examples {
namespace {
using test::ctx;

struct planted_number {
  double mu = 0, alpha = 0;
  qkgeom::head_class head_class = qkgeom::head_class::mixed;
};

void set(pca_result& pca, rotation_result& r, const planted_number& x, double L) {
  pca.r_q = pca.r_k = pca.explained_variance = {0.5};
  pca.head_class = x.head_class;
  r.q.mu = x.mu;
  r.k.alpha = x.alpha;
  r.bias.strength = x.mu * x.alpha;
  r.k.alpha_context = x.alpha * L;
  r.bias.context = r.bias.strength * L;
}

/// A report whose geometry is given, with the numbers of each replicate: (replicates)(heads).
model_report report_of(const std::vector<planted_number>& heads, index_t L,
                       const std::vector<std::vector<planted_number>>& without = {},
                       std::vector<std::int32_t> documents = {0, 1, 2}) {
  model_report report{"planted", L, uniform_buckets{L}.edges(L), {}};
  for (std::size_t h = 0; h < heads.size(); ++h) {
    head_report r;
    r.layer = static_cast<index_t>(h / 2);
    r.q_head = static_cast<index_t>(h % 2);
    r.rope = h != 1;
    set(r.pca, r.rotation, heads[h], static_cast<double>(L));
    r.geometry.blocks = {documents, static_cast<index_t>(without.size())};
    for (const auto& w : without) {
      r.geometry.without.emplace_back();
      set(r.geometry.without.back().pca, r.geometry.without.back().rotation, w[h], static_cast<double>(L));
    }
    report.heads.push_back(std::move(r));
  }
  return report;
}

const auto position = head_class::position_dominated, content = head_class::content_focused;

TEST(head_statistics, median_error_is_that_of_every_redraw) {
  const std::vector<double> x{1000.5, 1003, 1001.25};
  double first = 0, second = 0;
  for (int i = 0; i < 27; ++i) {
    const auto at = [&](int k) { return x[k % 3] - 1000; };
    const double m = quantile({at(i), at(i / 3), at(i / 9)}, 0.5);
    first += m / 27;
    second += m * m / 27;
  }
  EXPECT_NEAR(head_error_of(head_statistic::median, x), std::sqrt(second - first * first), 1e-12);
  EXPECT_NEAR(head_error_of(head_statistic::mean, {1, 3}), 1, 1e-15);
  EXPECT_TRUE(std::isnan(head_error_of(head_statistic::median, {1})));
  EXPECT_TRUE(std::isnan(head_error_of(head_statistic::mean, {1})));
}

TEST(trajectory, statistics_over_heads_and_their_errors) {
  const auto checkpoint = point_of(report_of({{1, 2, position}, {-3, 2, position}, {5, 2, content}}, 100,
                                             {{{1.5, 2, position}, {-3, 2, content}, {5, 2, content}},
                                              {{0.5, 2, position}, {-3, 2, position}, {5, 2, content}},
                                              {{1.1, 2, position}, {-3.1, 2, position}, {5, 2, content}}}),
                                   "one", 2.5);
  const auto groups = head_groups(checkpoint.heads);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1].heads, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(groups[2].heads, (std::vector<std::size_t>{1}));
  const auto& all = groups[0].heads;
  const auto mean = over_heads(checkpoint.column("mu_q_a"), all, head_statistic::mean);
  EXPECT_DOUBLE_EQ(mean.value, 1);
  EXPECT_NEAR(mean.error, std::sqrt(1 / 27.0), 1e-15);  // the replicates are 1 +- 1/6 and 1: sqrt(2/3 (1/36 + 1/36))
  EXPECT_EQ(mean.freedom, 2);
  EXPECT_NEAR(mean.head_error, std::sqrt((0 + 16 + 16) / 2.0 / 3), 1e-15);
  EXPECT_DOUBLE_EQ(over_heads(checkpoint.column("mu_q_a"), all, head_statistic::mean_abs).value, 3);
  const auto median = over_heads(checkpoint.column("mu_q_a"), all, head_statistic::median);
  EXPECT_DOUBLE_EQ(median.value, 1);
  EXPECT_NEAR(median.error, jackknife_error({1.5, 0.5, 1.1}), 1e-15);
  // alpha_k is the same in every replicate: no error is known, rather than 0.
  EXPECT_TRUE(std::isnan(over_heads(checkpoint.column("alpha_k"), all, head_statistic::mean).error));
  const auto share = class_share(checkpoint, all, position).estimate();
  EXPECT_DOUBLE_EQ(share.value, 2.0 / 3);
  EXPECT_NEAR(share.error, jackknife_error({1 / 3.0, 2 / 3.0, 2 / 3.0}), 1e-15);
  EXPECT_NEAR(share.head_error, std::sqrt(2.0 / 9 / 2), 1e-15);
  EXPECT_THROW(checkpoint.column("no_such_column"), error);
  EXPECT_THROW(point_of(model_report{}, "empty"), error);
}

TEST(trajectory, transitions_count_where_each_head_went) {
  const auto a = point_of(report_of({{1, 1, position}, {1, 1, position}, {1, 1, content}, {1, 1, content}}, 100), "a");
  const auto b = point_of(report_of({{1, 1, position}, {1, 1, content}, {1, 1, position}, {1, 1, position}}, 100), "b");
  double share = 0;
  for (const auto& t : class_transitions(a, b, every_head(a.heads))) {
    const index_t expected = t.from == position && t.to == position  ? 1
                             : t.from == position && t.to == content ? 1
                             : t.from == content && t.to == position ? 2
                                                                     : 0;
    EXPECT_EQ(t.heads, expected);
    EXPECT_DOUBLE_EQ(t.share.value, static_cast<double>(expected) / 4);
    EXPECT_TRUE(std::isnan(t.share.error)) << "no documents were left out";
    share += t.share.value;
  }
  EXPECT_DOUBLE_EQ(share, 1);
  const auto other = point_of(report_of({{1, 1, position}, {1, 1, position}}, 100), "other");
  EXPECT_THROW(class_transitions(a, other, {0}), error);
  EXPECT_THROW(split_bias(a, other, {0}, true, false), error);
}

TEST(bias_split, known_answer) {
  const auto a = point_of(report_of({{1, 2}, {3, 4}}, 100), "a");
  const auto b = point_of(report_of({{1, 1}, {3, 2}}, 400), "b");  // alpha halves, the context is four times as long
  const std::vector<std::size_t> both{0, 1};
  const auto token = split_bias(a, b, both, false, false);
  EXPECT_DOUBLE_EQ(token.from.bias, 7);
  EXPECT_DOUBLE_EQ(token.from.covariance, 7.0 / 6);
  EXPECT_NEAR(token.bias.value, std::log(0.5), 1e-15);
  EXPECT_NEAR(token.alpha.value, std::log(0.5), 1e-15);
  EXPECT_NEAR(token.mu.value, 0, 1e-15);
  EXPECT_NEAR(token.covariance.value, 0, 1e-15);
  const auto context = split_bias(a, b, both, false, true);
  EXPECT_NEAR(context.bias.value, std::log(2), 1e-15);
  EXPECT_NEAR(context.alpha.value, std::log(2), 1e-15);
  EXPECT_DOUBLE_EQ(context.to.bias, 3.5 * 400);
  // All of the change is in how mu and alpha go together.
  const auto crossed = point_of(report_of({{3, 2}, {1, 4}}, 100), "crossed");
  const auto cov = split_bias(a, crossed, both, false, false);
  EXPECT_NEAR(cov.bias.value, std::log(5.0 / 7), 1e-15);
  EXPECT_NEAR(cov.covariance.value, std::log(5.0 / 7), 1e-15);
  EXPECT_NEAR(cov.mu.value, 0, 1e-15);
  // A mean of 0 has no log.
  const auto none = point_of(report_of({{1, 1}, {-1, 1}}, 100), "none");
  EXPECT_TRUE(std::isnan(split_bias(a, none, both, false, false).mu.value));
  EXPECT_NEAR(split_bias(a, none, both, true, false).bias.value, std::log(1.0 / 7), 1e-15);
}

TEST(bias_split, parts_add_up_whatever_the_signs) {
  const random_stream stream{3, 0, 0, draw::planted};
  for (std::uint64_t trial = 0; trial < 50; ++trial) {
    const auto random_report = [&](std::uint64_t which, index_t L) {
      std::vector<planted_number> heads;
      for (std::uint64_t h = 0; h < 7; ++h)
        heads.push_back({stream.normal((trial * 2 + which) * 14 + h),
                         1e-3 * (0.3 + stream.normal((trial * 2 + which) * 14 + 7 + h))});
      return point_of(report_of(heads, L), "random");
    };
    const auto a = random_report(0, 512), b = random_report(1, 8192);
    for (const bool absolute : {false, true})
      for (const bool per_context : {false, true}) {
        const auto s = split_bias(a, b, every_head(a.heads), absolute, per_context);
        EXPECT_NEAR(s.mu.value + s.alpha.value + s.covariance.value, s.bias.value, 1e-12);
        EXPECT_NEAR(s.bias.value, std::log(std::abs(s.to.bias / s.from.bias)), 1e-15);
        EXPECT_GE(s.bias.head_error, 0);
        const auto& column = b.column(per_context ? "bias_context" : "bias_strength");
        const auto statistic = absolute ? head_statistic::mean_abs : head_statistic::mean;
        const double expected = over_heads(column, every_head(b.heads), statistic).value;
        EXPECT_NEAR(s.to.bias, expected, 1e-12);
      }
  }
}

TEST(bias_split, the_same_documents_are_left_out_of_both) {
  const std::vector<std::vector<planted_number>> up{{{2, 2}, {2, 2}}, {{1, 2}, {1, 2}}, {{1, 2}, {1, 2}}};
  const auto a = point_of(report_of({{1.5, 2}, {1.5, 2}}, 100, up), "a");
  const auto b = point_of(report_of({{1.5, 2}, {1.5, 2}}, 100, up), "b");
  const std::vector<std::size_t> both{0, 1};
  EXPECT_NEAR(split_bias(a, b, both, true, false).mu.error, 0, 1e-15);  // both move alike
  const auto other = point_of(report_of({{1.5, 2}, {1.5, 2}}, 100, up, {5, 6, 7}), "other documents");
  // Each side alone: log 2, 0 and 0 have a jackknife error of log(2) 2 / 3; there are two of them.
  const auto moved = split_bias(a, other, both, true, false).mu;
  EXPECT_NEAR(moved.error, std::log(2) * 2 / 3 * std::sqrt(2), 1e-15);
  EXPECT_NEAR(moved.freedom, 4, 1e-12);
}

planted_rows<double> drifting(std::uint64_t seed) {
  planted_head spec{.dim = 4, .context_length = 1024, .documents = 12, .rows = 40, .seed = seed};
  spec.mean_q = {2, 1, 0, 0};
  spec.drift_q = spec.drift_k = {4e-3, 0, 0, 0};
  return plant<double>(spec);
}

TEST(trajectory, plasticity_errors_are_those_of_the_summary) {
  const auto rows = drifting(1);
  model_report report{"planted", 1024, uniform_buckets{128}.edges(1024), {}};
  report.heads =
      analyse_layer(ctx, as_layer(rows.view()), {0, true, {0}, {0}}, report.buckets, 1024, {.geometry_blocks = 20});
  const auto checkpoint = point_of(report, "planted");
  const auto summary = summarize_model(report)[0];
  const auto drop = over_heads(checkpoint.column("ap_drop"), {0}, head_statistic::mean);
  EXPECT_DOUBLE_EQ(drop.value, summary.drop.value);
  EXPECT_NEAR(drop.error, summary.drop.error, 1e-15);
  const auto seen = over_heads(checkpoint.column("ap_empirical_unbiased"), {0}, head_statistic::mean);
  EXPECT_NEAR(seen.error, summarize(unbiased(*report.heads[0].empirical), report.context_length).overall.error, 1e-15);
  EXPECT_GT(seen.error, 0);
  EXPECT_TRUE(std::isnan(over_heads(checkpoint.column("ap_drop_error"), {0}, head_statistic::mean).error));
  EXPECT_EQ(checkpoint.column("alpha_k").without.size(), 12u);
}

TEST(trajectory, score_differences_are_those_of_one_document) {
  auto rows = drifting(7);
  for (std::size_t i = 0; i < rows.k_document.size(); ++i) rows.k[4 * i] += 5.0 * rows.k_document[i];
  const auto heads = analyse_layer(ctx, as_layer(rows.view()), {0, true, {0}, {0}}, uniform_buckets{128}.edges(1024),
                                   1024, {.plasticity = false, .geometry_blocks = 12});
  const auto pooled =
      planar_rotation(ctx, accumulate(ctx, rows.view(), uniform_buckets{128}, {.context_length = 1024}));
  double of_mean = 0, pairs = 0;
  std::vector<double> mu(4);
  for (std::size_t i = 0; i < rows.q.size(); ++i) mu[i % 4] += rows.q[i] * 4 / static_cast<double>(rows.q.size());
  for (std::size_t i = 0; i < rows.k_document.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (rows.k_document[i] != rows.k_document[j]) continue;
      double score = 0;
      for (std::size_t k = 0; k < 4; ++k) score += mu[k] * (rows.k[4 * i + k] - rows.k[4 * j + k]);
      of_mean += score * score;
      ++pairs;
    }
  EXPECT_NEAR(heads[0].rotation.score_sd_mean_query, std::sqrt(of_mean / pairs), 1e-10);
  EXPECT_GT(pooled.score_sd_mean_query, 5 * heads[0].rotation.score_sd_mean_query);
  EXPECT_EQ(heads[0].geometry.without.size(), 12u);
  EXPECT_NE(heads[0].geometry.without[3].rotation.score_sd, heads[0].rotation.score_sd);
}

TEST(trajectory, tables_have_a_row_for_each_checkpoint_and_group) {
  const std::vector<trajectory_point> points{
      point_of(report_of({{1, 2, position}, {3, 4, content}, {1, 1, content}}, 100), "a", 3.5),
      point_of(report_of({{1, 1, position}, {3, 2, position}, {1, 1, content}}, 100), "b,c"),
      point_of(report_of({{2, 1, position}, {3, 2, position}, {1, 1, position}}, 400), "d", 2.5)};
  const auto table = test::written(trajectory_table(points));
  ASSERT_EQ(table.rows(), 9u);
  EXPECT_EQ(table.column("checkpoint")[3], "b,c");
  EXPECT_EQ(table.column("group")[2], "nope");
  EXPECT_EQ(table.numbers("share_position_dominated")[0], 1.0 / 3);
  EXPECT_EQ(table.numbers("heldout_loss")[0], 3.5);
  EXPECT_TRUE(std::isnan(table.numbers("heldout_loss")[3]));
  EXPECT_EQ(table.numbers("alpha_k_mean")[0], 7.0 / 3);
  EXPECT_EQ(table.numbers("alpha_k_context_median")[6], 400);
  EXPECT_EQ(table.numbers("heads")[1], 2);
  EXPECT_EQ(test::written(transitions_table(points)).rows(), 3u * 3 * 25);  // a to b, b to d, a to d
  const auto split = test::written(bias_split_table(points));
  EXPECT_EQ(split.rows(), 3u * 3 * 4);
  const auto whole = split.numbers("log_bias"), mu = split.numbers("log_mu_q_a"), alpha = split.numbers("log_alpha_k"),
             cov = split.numbers("log_covariance");
  for (std::size_t i = 0; i < split.rows(); ++i) EXPECT_NEAR(mu[i] + alpha[i] + cov[i], whole[i], 1e-13);
}

}  // namespace
}  // namespace qkgeom::examples
