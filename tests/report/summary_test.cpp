// SPDX-License-Identifier: MIT
// Means over buckets, documents and heads, and the report on the fit of query models.
#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/report/fit_report.hpp"
#include "qkgeom/report/model_summary.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/io/scratch.hpp"
#include "tests/report/hand_report.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

plasticity_profile_result falling() {
  test::hand_sums sums(10);
  for (std::size_t b = 0; b < 10; ++b)
    for (std::size_t e = 0; e < 3; ++e) {
      const double pairs = b == 0 ? 0 : 10.0 * static_cast<double>(b) + static_cast<double>(e);
      sums[b].emplace_back(pairs * (0.9 - 0.05 * static_cast<double>(b) + 0.01 * static_cast<double>(e)), pairs);
    }
  return test::hand_profile(sums, {9, 8, 7, 6, 5, 4, 3, 2, 1, 10}, {10, 11, 12});
}

TEST(summarize, weighs_buckets_by_their_queries) {
  const auto p = falling();
  EXPECT_TRUE(std::isnan(p.buckets[0].plasticity));
  double sum = 0, weight = 0;
  for (std::size_t b = 1; b < 10; ++b) {
    sum += static_cast<double>(p.buckets[b].queries) * p.buckets[b].plasticity;
    weight += static_cast<double>(p.buckets[b].queries);
  }
  const auto s = summarize(p, 1000);
  EXPECT_DOUBLE_EQ(s.overall.value, sum / weight);
  EXPECT_DOUBLE_EQ(s.first20.value, p.buckets[1].plasticity);
  EXPECT_DOUBLE_EQ(s.last20.value, (p.buckets[8].plasticity + 10 * p.buckets[9].plasticity) / 11);
  EXPECT_DOUBLE_EQ(s.drop.value, s.first20.value - s.last20.value);
  const auto by_width = summarize(p, 1000, bucket_weight::width);
  EXPECT_DOUBLE_EQ(by_width.last20.value, (p.buckets[8].plasticity + p.buckets[9].plasticity) / 2);
  EXPECT_THROW(summarize(p, 0), error);
}

/// Ten buckets, the first two of one document alone, the third of two of the four.
plasticity_profile_result sparse(double shift = 0) {
  test::hand_sums sums(10);
  for (std::size_t b = 0; b < 10; ++b)
    for (std::size_t e = 0; e < 4; ++e) {
      const double pairs = (b < 2 && e != 1) || (b == 2 && e > 1) ? 0 : 10;
      const double value = 0.5 + 0.03 * static_cast<double>(b % 4) + 0.01 * static_cast<double>(e * e) + shift;
      sums[b].emplace_back(pairs * value, pairs);
    }
  return test::hand_profile(sums, {9, 8, 7, 6, 5, 4, 3, 2, 1, 10}, {10, 11, 12, 13});
}

TEST(summarize, documents_without_pairs_in_a_region_have_no_say_in_its_error) {
  const auto p = sparse();
  const auto s = summarize(p, 1000);
  EXPECT_FALSE(std::isnan(s.first20.value));
  EXPECT_TRUE(std::isnan(s.first20.error)) << "one example alone has no error";
  EXPECT_GT(s.last20.error, 0);
  const auto bins = bin_means(p, equal_bins(1000, 10));
  for (std::size_t b = 0; b < 10; ++b) {
    EXPECT_EQ(std::isnan(bins[b].plasticity.error), std::isnan(p.buckets[b].standard_error)) << b;
    EXPECT_EQ(std::isnan(p.buckets[b].standard_error), b < 3) << b;  // of fewer than three documents
    if (b >= 3) {
      EXPECT_NEAR(bins[b].plasticity.error, p.buckets[b].standard_error, 1e-14) << b;
    }
  }
}

TEST(summarize, means_over_heads_have_no_error_of_one_document) {
  model_report report{"m", 1000, uniform_buckets{100}.edges(1000), {}, 0};
  for (int h = 0; h < 3; ++h) {
    head_report head;
    head.layer = 0;
    head.q_head = h;
    head.profiles = {sparse(0.02 * h * h)};
    report.heads.push_back(std::move(head));
  }
  const auto g = summarize_heads(report, {0, 1, 2});
  EXPECT_TRUE(std::isnan(g.first20.error));
  EXPECT_GT(g.last20.error, 0);
}

TEST(summarize, errors_are_the_jackknife_over_documents) {
  const auto p = falling();
  const auto s = summarize(p, 1000);
  EXPECT_NEAR(s.first20.error, ratio_of_sums(p.buckets[1].document_sum, p.buckets[1].document_weight).error, 1e-15);
  EXPECT_DOUBLE_EQ(s.first20.error, p.buckets[1].standard_error);
}

TEST(bins, a_bin_without_a_bucket_middle_is_null) {
  const auto p = falling();
  const auto bins = bin_means(p, {0, 40, 100, 200, 1000});
  EXPECT_TRUE(std::isnan(bins[0].plasticity.value));
  EXPECT_TRUE(std::isnan(bins[1].plasticity.value));  // bucket 0 has no pairs
  EXPECT_DOUBLE_EQ(bins[2].plasticity.value, p.buckets[1].plasticity);
  EXPECT_EQ(equal_bins(1000, 5), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(length_bins(1600), (std::vector<double>{0, 100, 200, 400, 800, 1600}));
}

TEST(model_summary, means_over_heads_and_their_groups) {
  model_report report{"m", 1000, uniform_buckets{100}.edges(1000), {}};
  for (int i = 0; i < 4; ++i) {
    head_report h;
    h.layer = i / 2;
    h.q_head = i % 2;
    h.rope = i < 3;
    h.profiles.push_back(falling());
    for (auto& b : h.profiles[0].buckets)
      for (double& x : b.document_sum) x *= 1 - 0.1 * i;
    for (auto& b : h.profiles[0].buckets) b.plasticity *= 1 - 0.1 * i;
    h.summaries.push_back(summarize(h.profiles[0], 1000));
    report.heads.push_back(h);
  }
  const auto groups = summarize_model(report);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "all");
  EXPECT_EQ(groups[1].name, "rope");
  EXPECT_EQ(groups[2].name, "nope");
  const double one = report.heads[0].summaries[0].overall.value;
  EXPECT_NEAR(groups[0].overall.value, one * 0.85, 1e-14);
  EXPECT_NEAR(groups[0].overall.error, report.heads[0].summaries[0].overall.error * 0.85, 1e-14);
  EXPECT_NEAR(groups[1].overall.value, one * 0.9, 1e-14);
  EXPECT_NEAR(groups[2].drop.value, report.heads[3].summaries[0].drop.value, 1e-15);
}

TEST(fit_table, has_a_row_a_head_that_holds_what_was_found) {
  const auto source = capture::open(QKGEOM_TEST_DATA "/golden/long-f32.safetensors");
  std::vector<head_fit> heads;
  for (const index_t number : source.layers()) {
    const auto layer = source.read_layer(number);
    for (auto& h : fit_layer(ctx, layer.view<float>(), {number, layer.rope, layer.query_heads, layer.key_heads},
                             uniform_buckets{512}.edges(8192)))
      heads.push_back(std::move(h));
  }
  ASSERT_EQ(static_cast<index_t>(heads.size()), source.manifest().query_heads());
  const auto table = test::written(fits_table(heads));
  ASSERT_EQ(table.rows(), heads.size());
  for (const auto& name : table.columns())
    for (const auto& field : table.column(name)) EXPECT_FALSE(field.empty()) << name;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    EXPECT_EQ(table.numbers("q_resid0_skew")[i], heads[i].fit.residual.skewness);
    EXPECT_EQ(table.numbers("q_noise_med_ks_p")[i], heads[i].fit.noise.ks_p);
    EXPECT_EQ(table.numbers("score_med_ks")[i], heads[i].scores.all.ks_distance);
    EXPECT_NEAR(table.numbers("beta_pos")[i], table.numbers("q_beta_norm")[i], 1e-15);
    EXPECT_EQ(table.numbers("documents")[i], 3);
    EXPECT_EQ(table.numbers("beta_pos_p_least")[i], 0.25);
    EXPECT_GE(table.numbers("beta_pos_p")[i], 0.25);
    EXPECT_EQ(table.numbers("score_pairs")[i], 15 * 64);
    EXPECT_EQ(table.numbers("r2_axis")[i], heads[i].r2_axis);
  }
}

TEST(fit_table, thins_heads_of_too_many_rows) {
  planted_head planted{.dim = 6, .context_length = 1024, .documents = 4, .rows = 200, .seed = 6};
  const auto rows = plant<float>(planted);
  const layer_names names{0, true, {0}, {0}};
  const auto edges = uniform_buckets{128}.edges(1024);
  const auto all = fit_layer(ctx, as_layer(rows.view()), names, edges);
  const auto some = fit_layer(ctx, as_layer(rows.view()), names, edges, {.most_rows = 300});
  EXPECT_EQ(all[0].queries, 800);
  EXPECT_EQ(some[0].queries, 300);
  EXPECT_EQ(some[0].fit.residual.count, 300);
  EXPECT_NE(some[0].fit.residual.skewness, all[0].fit.residual.skewness);
}

TEST(fit_table, gap_is_gaussian_minus_unbiased_empirical) {
  planted_head planted{.dim = 6, .context_length = 1024, .documents = 12, .rows = 200, .seed = 6};
  planted.mean_q = {1, 1, 0, 0, 0, 0};
  const auto rows = plant<double>(planted);
  const auto head = rows.view();
  const uniform_buckets grid{128};
  const auto m = accumulate(ctx, head, grid, {.context_length = 1024});
  const auto model = fit_queries(ctx, m, {.covariance = covariance_kind::joint});
  const auto gaussian = plasticity_profile(ctx, model, head);
  const auto observed = unbiased(empirical_profile(ctx, head, grid, 1024));
  const auto gap = plasticity_gap(gaussian, observed);
  EXPECT_TRUE(std::isnan(gap.buckets[0].plasticity));
  for (std::size_t b = 1; b < 8; ++b) {
    const auto& g = gap.buckets[b];
    EXPECT_NEAR(g.plasticity, gaussian.buckets[b].plasticity - observed.buckets[b].plasticity, 1e-12);
    // Both see the same documents, so the difference is far surer than either.
    EXPECT_LT(g.standard_error, 0.5 * observed.buckets[b].standard_error);
    EXPECT_NEAR(g.plasticity, 0, 0.05);
  }
  EXPECT_NEAR(summarize(gap, 1024).overall.value,
              summarize(gaussian, 1024).overall.value - summarize(observed, 1024).overall.value, 1e-12);
  auto few = observed;  // other pairs in a bucket without a value are no matter, elsewhere they are
  few.buckets[3].plasticity = std::numeric_limits<double>::quiet_NaN();
  few.buckets[3].document_weight[0] += 1;
  const auto rest = plasticity_gap(gaussian, few);
  EXPECT_TRUE(std::isnan(rest.buckets[3].plasticity));
  EXPECT_EQ(rest.buckets[4].plasticity, gap.buckets[4].plasticity);
  few.buckets[4].document_weight[0] += 1;
  EXPECT_THROW(plasticity_gap(gaussian, few), error);
  auto other = observed;
  other.documents[0] = 99;
  EXPECT_THROW(plasticity_gap(gaussian, other), error);
}

TEST(fit_table, gaps_csv_has_a_row_a_bucket_and_model) {
  planted_head planted{.dim = 4, .context_length = 512, .documents = 3, .rows = 60, .seed = 6};
  const auto rows = plant<double>(planted);
  const uniform_buckets grid{128};
  const auto m = accumulate(ctx, rows.view(), grid, {.context_length = 512});
  head_report head;
  head.layer = 2;
  for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint})
    head.profiles.push_back(plasticity_profile(ctx, fit_queries(ctx, m, {.covariance = kind}), rows.view()));
  head.empirical = empirical_profile(ctx, rows.view(), grid, 512);
  model_report report;
  report.heads = {head};
  const auto table = test::written(gaps_table(report));
  ASSERT_EQ(table.rows(), 8u);
  EXPECT_EQ(table.column("covariance")[4], "joint");
  EXPECT_EQ(table.column("gap")[0], "");
  EXPECT_EQ(table.numbers("gap")[7], plasticity_gap(head.profiles[1], unbiased(*head.empirical)).buckets[3].plasticity);
}

}  // namespace
