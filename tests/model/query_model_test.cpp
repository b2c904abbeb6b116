// SPDX-License-Identifier: MIT
#include "qkgeom/model/query_model.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

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
  cpu_context ctx{{.threads = 1}};
  const auto v_of = [&](const planted_rows<double>& r, std::vector<double> delta, covariance_kind kind) {
    const auto model = fit_queries(ctx, accumulate(ctx, r.view(), uniform_buckets{100}, {.context_length = 400}),
                                   {.covariance = kind});
    const auto distribution = scores_of(model, 2, {});
    double v = 0;
    if (!distribution.variance.empty()) {
      delta = reflect(model.reflector, delta);
      for (std::size_t c = 0; c < 5; ++c) v += distribution.variance[c] * delta[c] * delta[c];
      return v;
    }
    for (std::size_t c = 0; c < static_cast<std::size_t>(distribution.rank); ++c) {
      double along = 0;
      for (std::size_t i = 0; i < 5; ++i)
        along += distribution.factor[i * static_cast<std::size_t>(distribution.rank) + c] * delta[i];
      v += along * along;
    }
    return v;
  };
  const std::vector<double> delta{1, 2, -1, 0.5, 3};
  for (const auto kind : {covariance_kind::joint, covariance_kind::full})
    EXPECT_NEAR(v_of(rows, delta, kind), v_of(reflected, reflect(mirror, delta), kind), 1e-12);
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
