// SPDX-License-Identifier: MIT
#include "qkgeom/model/fit_checks.hpp"

#include "qkgeom/io/csv.hpp"
#include "qkgeom/model/component_weights.hpp"
#include "qkgeom/model/kolmogorov_smirnov.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

/// A planted head whose queries drift: eps and noise are normal, R^2 follows from drift, length and unit variances.
planted_head drifting() {
  planted_head p{.dim = 12, .context_length = 4096, .documents = 8, .rows = 400, .seed = 3};
  p.drift_q.assign(12, 0.0);
  p.drift_q[2] = 1e-3;
  p.drift_q[7] = -5e-4;
  return p;
}

TEST(component_weights, are_equal_where_nothing_drifts) {
  auto rows = plant<double>(drifting());
  for (auto& t : rows.q_position) t = 7;
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{256}, {.context_length = 4096});
  for (const double w : component_weights(ctx, m).weight) EXPECT_DOUBLE_EQ(w, 1.0 / 12);
}

TEST(check_normality, is_that_of_scipy) {
  // scipy.stats.skew and kurtosis with bias=False, kstest of the standardised values against "norm".
  const auto r = check_normality({0.3, -1.2, 2.5, 0.1, -0.4, 0.9, 4.0});
  EXPECT_NEAR(r.skewness, 0.9133331122861538, 1e-13);
  EXPECT_NEAR(r.kurtosis, 0.16622019098035867, 1e-13);
  EXPECT_NEAR(r.ks_distance, 0.2111054860248478, 1e-14);
  EXPECT_NEAR(r.ks_p, 0.855953953427955, 1e-9);
}

TEST(check_normality, does_not_see_scale_and_place) {
  std::vector<double> x, y;
  const random_stream stream{.seed = 5};
  for (std::uint64_t i = 0; i < 200; ++i) {
    x.push_back(stream.uniform(i) * stream.uniform(i));
    y.push_back(1e3 - 1e-3 * x.back());
  }
  const auto a = check_normality(x), b = check_normality(y);
  EXPECT_NEAR(a.skewness, -b.skewness, 1e-6);
  EXPECT_NEAR(a.kurtosis, b.kurtosis, 1e-6);
  EXPECT_NEAR(a.ks_distance, b.ks_distance, 1e-8);
}

TEST(check_normality, of_too_few_or_constant_values_is_defined) {
  EXPECT_TRUE(std::isnan(check_normality({1}).ks_p));
  EXPECT_TRUE(std::isnan(check_normality({1, 2}).skewness));
  EXPECT_TRUE(std::isnan(check_normality({1, 2, 4}).kurtosis));
  const auto r = check_normality({3, 3, 3, 3});
  EXPECT_EQ(r.skewness, 0);
  EXPECT_EQ(r.kurtosis, 0);
  EXPECT_EQ(r.ks_p, 1);
}

TEST(medians, of_samples_leave_nan_out) {
  const std::vector<normality> samples = {
      {9, -3, 1, 0.1, 0.5}, {9, 1, -2, 0.3, 0.001}, {9, 2, 8, 0.2, 0.2}, check_normality({1})};
  const auto m = medians(samples, 0.01);
  EXPECT_EQ(m.samples, 4);
  EXPECT_EQ(m.abs_skewness, 2);
  EXPECT_EQ(m.abs_kurtosis, 2);
  EXPECT_EQ(m.ks_distance, 0.2);
  EXPECT_EQ(m.ks_p, 0.2);
  EXPECT_DOUBLE_EQ(m.share_below_alpha, 1.0 / 3);
  EXPECT_EQ(medians(samples, 0.01, {1, 2}).share_below_alpha, 0.5);
}

fit_checks_result checks_of(const planted_rows<double>& rows, const fit_check_options& options = {}) {
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{256}, {.context_length = 4096});
  return fit_checks(ctx, m, rows.view(), options);
}

TEST(fit_checks, test_at_most_the_dimensions_asked_for) {
  auto rows = plant<double>(drifting());
  for (std::size_t i = 0; i < rows.q.size(); ++i)
    if (i % 12 >= 9) rows.q[i] = std::exp(2 * rows.q[i]);
  const auto all = checks_of(rows), same = checks_of(rows, {.max_dimensions = 11});
  EXPECT_EQ(all.noise.ks_p, same.noise.ks_p);
  const auto one = checks_of(rows, {.max_dimensions = 1}).noise;
  EXPECT_TRUE(one.share_below_alpha == 0 || one.share_below_alpha == 1);
  EXPECT_EQ(one.abs_skewness, all.noise.abs_skewness);
}

TEST(fit_checks, refuse_moments_of_other_rows) {
  const auto a = plant<double>(drifting());
  auto other = drifting();
  other.rows = 300;
  const auto b = plant<double>(other);
  const auto m = accumulate(ctx, b.view(), uniform_buckets{256}, {.context_length = 4096});
  EXPECT_THROW(fit_checks(ctx, m, a.view()), error);
}

TEST(fit_checks, of_queries_without_drift_are_defined) {
  auto rows = plant<double>(drifting());
  for (auto& t : rows.q_position) t = 7;
  const auto r = checks_of(rows);
  EXPECT_EQ(r.beta_norm, 0);
  EXPECT_EQ(r.r2_pos, 0);
  EXPECT_EQ(r.r2_scalar, 0);
  EXPECT_EQ(r.mae_ratio(), 1);
}

TEST(kolmogorov_smirnov, p_agrees_with_scipy) {
  const auto table = read_csv(std::string(QKGEOM_TEST_DATA) + "/kolmogorov.csv");  // made by make_kolmogorov_table.py
  const auto n = table.numbers("n"), distance = table.numbers("distance"), p = table.numbers("p");
  EXPECT_GT(table.rows(), 300u);
  for (std::size_t i = 0; i < table.rows(); ++i)
    EXPECT_NEAR(kolmogorov_smirnov_p(static_cast<index_t>(n[i]), distance[i]) / p[i], 1, p[i] < 0.1 ? 2e-4 : 1e-3)
        << n[i] << ' ' << distance[i];
}

TEST(kolmogorov_smirnov, p_of_one_value_is_its_closed_form) {
  for (const double d : {0.5, 0.55, 0.8, 0.96, 0.999}) EXPECT_NEAR(kolmogorov_smirnov_p(1, d), 2 * (1 - d), 1e-12);
  EXPECT_EQ(kolmogorov_smirnov_p(7, 0), 1);
  EXPECT_EQ(kolmogorov_smirnov_p(7, 1), 0);
  EXPECT_THROW(kolmogorov_smirnov_p(0, 0.5), error);
}

TEST(kolmogorov_smirnov, p_falls_with_the_distance_across_the_methods) {
  for (const index_t n : {5, 64, 128, 129, 500, 3000}) {
    double before = 1;
    for (double d = 0.4 / static_cast<double>(n); d < 1; d *= 1.01) {
      const double p = kolmogorov_smirnov_p(n, d);
      EXPECT_LE(p, before * (1 + 2e-4)) << n << " " << d;
      before = p;
    }
  }
}

}  // namespace
