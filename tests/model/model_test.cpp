// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/planted/heads.hpp"

namespace {

using namespace qkgeom;

void expect_reflects(std::vector<double> direction) {
  const auto u = householder_reflector(direction);
  const double length = dense::norm(direction);
  for (double& x : direction) x /= length;
  const auto image = reflect(u, direction);
  EXPECT_NEAR(image[0], 1, 1e-15);
  for (std::size_t i = 1; i < image.size(); ++i) EXPECT_NEAR(image[i], 0, 1e-15);
  // H is its own inverse, to rounding, however close the direction is to e_1.
  std::vector<double> x{0.3, -2, 5};
  x.resize(direction.size(), 1);
  const auto back = reflect(u, reflect(u, x));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 1e-14);
}

TEST(householder, sends_the_direction_to_the_first_coordinate) {
  expect_reflects({1, 2, -3});
  expect_reflects({-1, 2, -3});
  expect_reflects({-1, 0, 0});
  expect_reflects({0, 1e-200, 0});
  for (const double off : {1e-1, 1e-5, 1e-9, 1e-15, 1e-30}) {
    expect_reflects({1, off, -off});
    expect_reflects({-1, off, -off});
  }
}

TEST(householder, is_the_identity_along_e1_and_for_nothing) {
  EXPECT_TRUE(householder_reflector({3, 0, 0}).empty());
  EXPECT_TRUE(householder_reflector({0, 0, 0}).empty());
}

TEST(householder, near_e1_keeps_full_precision) {
  // beta = e_1 + 1e-9 e_2: b_1 - 1 is -5e-19, which rounding would make 0 and the naive u wrong by half an ulp of 1.
  const auto u = householder_reflector({1, 1e-9, 0});
  EXPECT_NEAR(u[0], -0.5e-9, 1e-24);
  EXPECT_DOUBLE_EQ(u[1], 1);
}

TEST(householder, reflects_matrices_on_both_sides) {
  const std::size_t d = 5;
  const random_stream s{.seed = 3};
  std::vector<double> m(d * d), direction(d);
  for (std::size_t i = 0; i < d; ++i) {
    direction[i] = s.uniform(i) - 0.5;
    for (std::size_t j = 0; j <= i; ++j) m[i * d + j] = m[j * d + i] = s.uniform(100 + i * d + j);
  }
  const auto u = householder_reflector(direction);
  const auto got = reflect_both(u, m);
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < d; ++j) {
      std::vector<double> ei(d), ej(d);
      ei[i] = ej[j] = 1;
      EXPECT_NEAR(got[i * d + j], dense::dot(reflect(u, ei), dense::multiply(m, reflect(u, ej))), 1e-14);
    }
}

TEST(semidefinite_factor, is_a_factor_also_of_singular_matrices) {
  const random_stream s{.seed = 4};
  for (const index_t rank : {0, 1, 3, 6}) {
    const index_t d = 6;
    std::vector<double> m(36);
    for (index_t r = 0; r < rank; ++r)
      for (std::size_t i = 0; i < 6; ++i)
        for (std::size_t j = 0; j < 6; ++j)
          m[i * 6 + j] += (s.uniform(static_cast<std::uint64_t>(r) * 6 + i) - 0.5) *
                          (s.uniform(static_cast<std::uint64_t>(r) * 6 + j) - 0.5);
    const auto f = linalg::semidefinite_factor(m, d);
    EXPECT_EQ(f.rank, rank);
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 6; ++j) {
        double product = 0;
        for (std::size_t c = 0; c < static_cast<std::size_t>(rank); ++c)
          product +=
              f.factor[i * static_cast<std::size_t>(rank) + c] * f.factor[j * static_cast<std::size_t>(rank) + c];
        EXPECT_NEAR(product, m[i * 6 + j], 1e-14);
      }
  }
  EXPECT_THROW(linalg::semidefinite_factor({std::nan("")}, 1), error);
}

/// Any orthogonal change of basis leaves v of `joint` alone: it is the covariance of (q - drift) within the bucket.
TEST(query_model, joint_does_not_depend_on_the_basis) {
  planted_head spec{.dim = 5, .context_length = 400, .documents = 4, .rows = 100, .seed = 9};
  spec.drift_q = {1e-3, -2e-3, 0, 0, 1e-3};
  const auto rows = plant<double>(spec);
  auto turned = rows;
  const auto mirror = householder_reflector({1, -2, 0.5, 3, 1});
  for (auto* side : {&turned.q, &turned.k})
    for (std::size_t i = 0; i < side->size(); i += 5) {
      const auto x = reflect(
          mirror, {side->begin() + static_cast<std::ptrdiff_t>(i), side->begin() + static_cast<std::ptrdiff_t>(i) + 5});
      std::copy(x.begin(), x.end(), side->begin() + static_cast<std::ptrdiff_t>(i));
    }
  cpu_context ctx{{.threads = 1}};
  const auto v_of = [&](const planted_rows<double>& r, std::vector<double> delta, covariance_kind kind) {
    const auto model = fit_queries(ctx, accumulate(ctx, r.view(), uniform_buckets{100}, {.context_length = 400}),
                                   {.covariance = kind});
    const auto distribution = scores_of(model, 2, {});
    if (!distribution.variance.empty()) {
      delta = reflect(model.reflector, delta);
      double v = 0;
      for (std::size_t c = 0; c < 5; ++c) v += distribution.variance[c] * delta[c] * delta[c];
      return v;
    }
    double v = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(distribution.rank); ++c) {
      double along = 0;
      for (std::size_t i = 0; i < 5; ++i)
        along += distribution.factor[i * static_cast<std::size_t>(distribution.rank) + c] * delta[i];
      v += along * along;
    }
    return v;
  };
  const std::vector<double> delta{1, 2, -1, 0.5, 3};
  EXPECT_NEAR(v_of(rows, delta, covariance_kind::joint), v_of(turned, reflect(mirror, delta), covariance_kind::joint),
              1e-12);
  EXPECT_NEAR(v_of(rows, delta, covariance_kind::full), v_of(turned, reflect(mirror, delta), covariance_kind::full),
              1e-12);
}

TEST(query_model, drift_along_e1_and_against_it_and_none) {
  cpu_context ctx{{.threads = 1}};
  for (const double drift : {2e-3, -2e-3, 0.0}) {
    planted_head spec{.dim = 3, .context_length = 1000, .documents = 2, .rows = 200};
    spec.drift_q = {drift, 0, 0};
    auto rows = plant<double>(spec);
    // Exactly along the axis: the other coordinates do not vary at all.
    for (std::size_t i = 0; i < rows.q_position.size(); ++i) rows.q[3 * i + 1] = rows.q[3 * i + 2] = 0;
    for (std::size_t i = 0; i < rows.q_position.size() && drift == 0; ++i) rows.q[3 * i] = 1;
    const auto model = fit_queries(ctx, accumulate(ctx, rows.view(), uniform_buckets{250}, {.context_length = 1000}));
    EXPECT_EQ(model.reflector.empty(), drift >= 0);
    EXPECT_NEAR(model.beta_pos, std::abs(drift), 3 / std::sqrt(400) / 288);
    EXPECT_EQ(model.r2_pos > 0, drift != 0);
    EXPECT_EQ(model.sigma2_pos > 0, drift != 0);
  }
}

TEST(query_model, needs_the_covariance_of_each_bucket) {
  const auto rows = plant<float>({.dim = 3, .context_length = 100, .documents = 1, .rows = 50});
  cpu_context ctx{{.threads = 1}};
  const auto m =
      accumulate(ctx, rows.view(), uniform_buckets{25}, {.q_bucket = scatter_kind::diagonal, .context_length = 100});
  EXPECT_THROW(fit_queries(ctx, m), error);
  EXPECT_NO_THROW(fit_queries(ctx, m, {.covariance = covariance_kind::linear_drift}));
}

}  // namespace
