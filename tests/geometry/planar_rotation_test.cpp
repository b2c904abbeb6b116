// SPDX-License-Identifier: MIT
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

TEST(rotation, zero_drift_gives_no_axis_a_and_b_from_the_whole_difference) {
  auto rows = plant<double>({.dim = 4, .documents = 1, .rows = 100});
  for (auto* t : {&rows.q_position, &rows.k_position})
    std::fill(t->begin(), t->end(), 17);  // constant positions: Cov(x, t) = 0
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{1024}, {.context_length = 8192});
  const auto r = planar_rotation(ctx, m);
  EXPECT_EQ(dense::norm(r.drift_axis), 0);
  EXPECT_EQ(r.k.alpha, 0);
  EXPECT_EQ(r.q.mu, 0);
  EXPECT_EQ(r.bias.strength, 0);
  EXPECT_EQ(r.q.r, 0);
  EXPECT_NEAR(dense::norm(r.separation_axis), 1, 1e-14);
  EXPECT_NEAR(r.q.mu_b - r.k.mu_b, dense::norm(dense::difference(m.q.total.mean, m.k.total.mean)), 1e-12);
  const auto p = pca(ctx, m);
  EXPECT_EQ(p.head_class, head_class::content_focused);
  EXPECT_EQ(p.q_linear_share, 0);
}

TEST(rotation, equal_centroids_give_no_axis_b) {
  auto rows = plant<double>({.dim = 4, .documents = 1, .rows = 100});
  rows.k = rows.q;
  rows.k_position = rows.q_position;
  const auto r = planar_rotation(ctx, accumulate(ctx, rows.view(), uniform_buckets{1024}, {.context_length = 8192}));
  EXPECT_EQ(dense::norm(r.separation_axis), 0);
  EXPECT_EQ(r.separation_strength, 0);
}

TEST(rotation, a_side_that_drifts_beside_the_axis_is_off_it) {
  std::vector<double> q, k;
  std::vector<std::int32_t> t, e(8);
  for (int i = 0; i < 8; ++i) {
    const double y = 2 * i - 7;
    q.insert(q.end(), {y, 0.0});
    k.insert(k.end(), {-y, y});  // the pool drifts along the second coordinate
    t.push_back(i);
  }
  const vector_view<const std::int32_t> position{t.data(), 8}, document{e.data(), 8};
  const head_view<double> h{{q.data(), 8, 2, 2}, position, document, {k.data(), 8, 2, 2}, position, document, {}};
  const auto r = planar_rotation(ctx, accumulate(ctx, h, uniform_buckets{4}));
  EXPECT_EQ(r.drift_axis, (std::vector<double>{0, 1}));
  EXPECT_EQ(r.q.drift_off_a, 1);
  EXPECT_NEAR(r.k.drift_off_a, 0.5, 1e-12);
}

TEST(rotation, in_one_dimension_there_is_no_second_axis) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<double> drift{0.01}, mean{0.3};
    const auto rows = plant<double>(
        {.dim = 1, .context_length = 512, .documents = 2, .rows = 40, .seed = seed, .mean_q = mean, .drift_k = drift});
    const auto r = planar_rotation(ctx, accumulate(ctx, rows.view(), uniform_buckets{128}),
                                   {.separation = separation_axis_kind::top_eigenvector});
    EXPECT_NEAR(std::abs(r.drift_axis[0]), 1, 1e-15);
    EXPECT_EQ(r.separation_axis[0], 0) << seed;
    EXPECT_NEAR(r.plane_var_fraction, 1, 1e-12);
  }
}

TEST(rotation, constant_rows_are_no_error) {
  auto rows = plant<double>({.dim = 4, .documents = 1, .rows = 50});
  std::fill(rows.q.begin(), rows.q.end(), 0.1);
  std::fill(rows.k.begin(), rows.k.end(), 0.1);
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{1024}, {.context_length = 8192});
  const auto p = pca(ctx, m);
  for (const double x : p.explained_variance) EXPECT_EQ(x, 0);
  for (const double x : p.r_q) EXPECT_EQ(x, 0);
  const auto r = planar_rotation(ctx, m, {.separation = separation_axis_kind::top_eigenvector});
  EXPECT_EQ(r.var_frac_a, 0);
  EXPECT_EQ(r.bias.strength, 0);
}

TEST(rotation, a_side_without_rows_is_refused) {
  auto rows = plant<double>({.dim = 4, .documents = 1, .rows = 50});
  rows.k.clear();
  rows.k_position.clear();
  rows.k_document.clear();
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{1024}, {.context_length = 8192});
  EXPECT_THROW(pca(ctx, m), error);
  EXPECT_THROW(planar_rotation(ctx, m), error);
}

planted_rows<double> drifting() {
  return plant<double>({.dim = 3,
                        .context_length = 1000,
                        .documents = 4,
                        .rows = 30,
                        .seed = 8,
                        .mean_q = {1, -2, 0.5},
                        .mean_k = {0.3, 0, 1},
                        .drift_q = {1e-3, 0, 2e-3},
                        .drift_k = {2e-3, 1e-3, 0},
                        .root_q = {1, 0, 0, 0.5, 1, 0, 0, 0.2, 0.7}});
}

TEST(rotation, slopes_times_the_context_length) {
  const auto rows = drifting();
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{100}, {.context_length = 1000});
  const auto r = planar_rotation(ctx, m);
  EXPECT_DOUBLE_EQ(r.q.alpha_context, 1000 * r.q.alpha);
  EXPECT_DOUBLE_EQ(r.k.alpha_context, 1000 * r.k.alpha);
  EXPECT_DOUBLE_EQ(r.bias.context, r.q.mu * r.k.alpha_context);
  EXPECT_DOUBLE_EQ(r.bias.alpha_k_b_context, 1000 * r.bias.alpha_k_b);
  EXPECT_DOUBLE_EQ(r.bias.context_b, r.q.mu_b * r.bias.alpha_k_b_context);
  EXPECT_NE(r.bias.context, 0);
  EXPECT_NE(r.bias.context_b, 0);
  // Buckets may end before the context does.
  const auto some = accumulate(ctx, rows.view(), edge_buckets{{0, 100, 300}}, {.context_length = 1000});
  EXPECT_DOUBLE_EQ(planar_rotation(ctx, some).k.alpha_context, 300 * r.k.alpha);
  EXPECT_DOUBLE_EQ(planar_rotation(ctx, some, {.context_length = 1000}).k.alpha_context, 1000 * r.k.alpha);
}

TEST(rotation, spread_of_score_differences_is_that_of_all_queries_and_pairs_of_keys) {
  const auto rows = drifting();
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{100}, {.context_length = 1000});
  const auto r = planar_rotation(ctx, m);
  const auto& mu = m.q.total.mean;
  const std::size_t n = rows.q.size() / 3, n_k = rows.k.size() / 3;
  double of_mean = 0, about_mean = 0, pairs = 0;
  for (std::size_t i = 0; i < n_k; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto score = [&](const double* q) {
        double s = 0;
        for (std::size_t c = 0; c < 3; ++c) s += q[c] * (rows.k[3 * i + c] - rows.k[3 * j + c]);
        return s;
      };
      ++pairs;
      const double mean = score(mu.data());
      of_mean += mean * mean;
      for (std::size_t q = 0; q < n; ++q) {
        const double off = score(&rows.q[3 * q]) - mean;
        about_mean += off * off / (static_cast<double>(n) - 1);
      }
    }
  EXPECT_NEAR(r.score_sd_mean_query, std::sqrt(of_mean / pairs), 1e-12);
  EXPECT_NEAR(r.score_sd, std::sqrt((of_mean + about_mean) / pairs), 1e-12);
  EXPECT_DOUBLE_EQ(r.bias.context_in_sd, r.bias.context / r.score_sd);
  EXPECT_DOUBLE_EQ(r.bias.context_in_sd_mean_query, r.bias.context / r.score_sd_mean_query);
}

TEST(rotation, equal_keys_have_no_spread_and_no_bias_in_units_of_it) {
  auto rows = drifting();
  std::fill(rows.k.begin(), rows.k.end(), 0.25);
  const auto r = planar_rotation(ctx, accumulate(ctx, rows.view(), uniform_buckets{100}, {.context_length = 1000}));
  EXPECT_EQ(r.score_sd, 0);
  EXPECT_EQ(r.bias.context_in_sd, 0);
  EXPECT_EQ(r.bias.context_in_sd_mean_query, 0);
}

TEST(planted, head_classes_come_back) {
  const auto class_of = [](double q_slope, double k_slope) {
    planted_head spec{.dim = 8, .documents = 8, .rows = 1000, .seed = 5};
    spec.drift_q = {q_slope, 0, 0, 0, 0, 0, 0, 0};
    spec.drift_k = {k_slope, 0, 0, 0, 0, 0, 0, 0};
    spec.root_q.assign(64, 0);
    for (std::size_t i = 0; i < 8; ++i) spec.root_q[i * 9] = 0.5;
    spec.root_q[0] = 1;  // the first coordinate has the largest variance even without drift
    spec.root_k = spec.root_q;
    const auto rows = plant<double>(spec);
    return pca(ctx, accumulate(ctx, rows.view(), uniform_buckets{1024}, {.context_length = 8192})).head_class;
  };
  EXPECT_EQ(class_of(2e-3, 2e-3), head_class::position_dominated);
  EXPECT_EQ(class_of(2e-3, 0), head_class::q_positional);
  EXPECT_EQ(class_of(0, 2e-3), head_class::k_positional);
  EXPECT_EQ(class_of(0, 0), head_class::content_focused);
}

TEST(head_class, every_corner_of_the_thresholds) {
  EXPECT_EQ(classify(0.8, -0.9), head_class::position_dominated);
  EXPECT_EQ(classify(-0.8, 0.1), head_class::q_positional);
  EXPECT_EQ(classify(0.8, 0.6), head_class::q_positional);
  EXPECT_EQ(classify(0.1, 0.8), head_class::k_positional);
  EXPECT_EQ(classify(0.5, 0.8), head_class::mixed);
  EXPECT_EQ(classify(0.1, 0.2), head_class::content_focused);
  EXPECT_EQ(classify(0.5, 0.5), head_class::mixed);
  EXPECT_EQ(classify(0.6, 0.6, {.low = 0.5, .high = 0.5}), head_class::position_dominated);
  EXPECT_QKGEOM_ERROR("the threshold low", classify(0.5, 0.5, {.low = 0.7, .high = 0.3}));
  EXPECT_EQ(classify(0.5, 0.5, {.low = 0.6, .high = 0.7}), head_class::content_focused);
}

}  // namespace
