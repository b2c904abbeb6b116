// SPDX-License-Identifier: MIT
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/adapt/eigen.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

/// v under `joint` does not change with the basis: it uses the covariance of (q - drift) within the bucket.
TEST(query_model, joint_does_not_depend_on_the_basis) {
  planted_head spec{.dim = 5, .context_length = 400, .documents = 4, .rows = 100, .seed = 9};
  spec.drift_q = {1e-3, -2e-3, 0, 0, 1e-3};
  const auto rows = plant<double>(spec);
  auto reflected = rows;
  const auto mirror = householder_reflector({1, -2, 0.5, 3, 1});
  for (auto* side : {&reflected.q, &reflected.k})
    for (std::size_t i = 0; i < side->size(); i += 5) {
      const auto x = reflect(
          mirror, {side->begin() + static_cast<std::ptrdiff_t>(i), side->begin() + static_cast<std::ptrdiff_t>(i) + 5});
      std::copy(x.begin(), x.end(), side->begin() + static_cast<std::ptrdiff_t>(i));
    }
  const auto v_of = [&](const planted_rows<double>& r, std::vector<double> delta, covariance_kind kind) {
    const auto model = test::model_of(r.view(), 100, 400, kind);
    const auto distribution = scores_of(model, 2, {});
    if (distribution.variance.empty())
      return (as_eigen(distribution.factor, distribution.rank).transpose() * as_eigen(delta)).squaredNorm();
    delta = reflect(model.reflector, delta);
    return as_eigen(distribution.variance).dot(as_eigen(delta).cwiseAbs2());
  };
  const std::vector<double> delta{1, 2, -1, 0.5, 3};
  for (const auto kind : {covariance_kind::joint, covariance_kind::full})
    EXPECT_NEAR(v_of(rows, delta, kind), v_of(reflected, reflect(mirror, delta), kind), 1e-12);
}

TEST(query_model, drift_along_e1_and_against_it_and_none) {
  for (const double drift : {2e-3, -2e-3, 0.0}) {
    planted_head spec{.dim = 3, .context_length = 1000, .documents = 2, .rows = 200};
    spec.drift_q = {drift, 0, 0};
    auto rows = plant<double>(spec);
    // Exactly along the axis: the other coordinates do not vary at all.
    for (std::size_t i = 0; i < rows.q_position.size(); ++i) rows.q[3 * i + 1] = rows.q[3 * i + 2] = 0;
    for (std::size_t i = 0; i < rows.q_position.size() && drift == 0; ++i) rows.q[3 * i] = 1;
    const auto model = test::model_of(rows.view(), 250, 1000);
    EXPECT_EQ(model.reflector.empty(), drift >= 0);
    EXPECT_NEAR(model.beta_pos, std::abs(drift), 3 / std::sqrt(400) / 288);
    EXPECT_EQ(model.r2_pos > 0, drift != 0);
    EXPECT_EQ(model.sigma2_pos > 0, drift != 0);
  }
}

TEST(query_model, needs_the_covariance_of_each_bucket) {
  const auto rows = plant<float>({.dim = 3, .context_length = 100, .documents = 1, .rows = 50});
  const auto m =
      accumulate(ctx, rows.view(), uniform_buckets{25}, {.q_bucket = scatter_kind::diagonal, .context_length = 100});
  EXPECT_THROW(fit_queries(ctx, m), error);
  EXPECT_NO_THROW(fit_queries(ctx, m, {.covariance = covariance_kind::linear_drift}));
}

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

}  // namespace
