// SPDX-License-Identifier: MIT
#include "qkgeom/report/fit_report.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/plasticity/summary.hpp"
#include "tests/io/scratch.hpp"

namespace {

using namespace qkgeom;

class fit_table : public testing::Test {
 protected:
  cpu_context ctx_{{.threads = 2}};
  const test::scratch_folder folder_;
  const std::filesystem::path path_ = folder_ / "fits.csv";
};

TEST_F(fit_table, has_a_row_a_head_that_holds_what_was_found) {
  const auto source = capture::open(QKGEOM_TEST_DATA "/golden/long-f32.safetensors");
  std::vector<head_fit> heads;
  for (const index_t number : source.layers()) {
    const auto layer = source.read_layer(number);
    for (auto& h : fit_layer(ctx_, layer.view<float>(), {number, layer.rope, layer.query_heads, layer.key_heads},
                             uniform_buckets{512}.edges(8192)))
      heads.push_back(std::move(h));
  }
  ASSERT_EQ(static_cast<index_t>(heads.size()), source.manifest().query_heads());
  write_csv(path_, fits_table(heads));
  const auto table = read_csv(path_);
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

TEST_F(fit_table, thins_heads_of_too_many_rows) {
  planted_head planted{.dim = 6, .context_length = 1024, .documents = 4, .rows = 200, .seed = 6};
  const auto rows = plant<float>(planted);
  const layer_names names{0, true, {0}, {0}};
  const auto edges = uniform_buckets{128}.edges(1024);
  const auto all = fit_layer(ctx_, as_layer(rows.view()), names, edges);
  const auto some = fit_layer(ctx_, as_layer(rows.view()), names, edges, {.most_rows = 300});
  EXPECT_EQ(all[0].queries, 800);
  EXPECT_EQ(some[0].queries, 300);
  EXPECT_EQ(some[0].fit.residual.count, 300);
  EXPECT_NE(some[0].fit.residual.skewness, all[0].fit.residual.skewness);
}

TEST_F(fit_table, gap_is_gaussian_minus_unbiased_empirical) {
  planted_head planted{.dim = 6, .context_length = 1024, .documents = 12, .rows = 200, .seed = 6};
  planted.mean_q = {1, 1, 0, 0, 0, 0};
  const auto rows = plant<double>(planted);
  const auto head = rows.view();
  const uniform_buckets grid{128};
  const auto m = accumulate(ctx_, head, grid, {.context_length = 1024});
  const auto model = fit_queries(ctx_, m, {.covariance = covariance_kind::joint});
  const auto gaussian = plasticity_profile(ctx_, model, head);
  const auto observed = unbiased(empirical_profile(ctx_, head, grid, 1024));
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

TEST_F(fit_table, gaps_csv_has_a_row_a_bucket_and_model) {
  planted_head planted{.dim = 4, .context_length = 512, .documents = 3, .rows = 60, .seed = 6};
  const auto rows = plant<double>(planted);
  const uniform_buckets grid{128};
  const auto m = accumulate(ctx_, rows.view(), grid, {.context_length = 512});
  head_report head;
  head.layer = 2;
  for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint})
    head.profiles.push_back(plasticity_profile(ctx_, fit_queries(ctx_, m, {.covariance = kind}), rows.view()));
  head.empirical = empirical_profile(ctx_, rows.view(), grid, 512);
  model_report report;
  report.heads = {head};
  write_csv(path_, gaps_table(report));
  const auto table = read_csv(path_);
  ASSERT_EQ(table.rows(), 8u);
  EXPECT_EQ(table.column("covariance")[4], "joint");
  EXPECT_EQ(table.column("gap")[0], "");
  EXPECT_EQ(table.numbers("gap")[7], plasticity_gap(head.profiles[1], unbiased(*head.empirical)).buckets[3].plasticity);
}

}  // namespace
