// SPDX-License-Identifier: MIT
// Plasticity of planted heads, whose value is a one-dimensional integral.
#include <boost/math/quadrature/gauss_kronrod.hpp>

#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/plasticity/summary.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;
using test::model_of;

/// E[4 Phi(z) Phi(-z)] for z = length c, c a coordinate of a uniform direction in d dimensions: queries N(mu, I) with
/// |mu| = length, keys N(0, I).
double isotropic_plasticity(double length, int d) {
  using boost::math::quadrature::gauss_kronrod;
  const auto density = [&](double c) { return std::pow(1 - c * c, 0.5 * (d - 3)); };
  const double whole = gauss_kronrod<double, 61>::integrate(density, -1.0, 1.0, 10, 1e-12);
  return gauss_kronrod<double, 61>::integrate([&](double c) { return density(c) * pair_plasticity(length * c, 1); },
                                              -1.0, 1.0, 10, 1e-12) /
         whole;
}

TEST(planted, heads_that_cannot_be_are_refused) {
  const planted_head good{.dim = 3, .context_length = 10, .documents = 1, .rows = 2, .mean_q = {1, 2, 3}};
  EXPECT_EQ(plant(good).q.size(), 6u);
  const auto refused = [&](const std::string& what, const auto& spoil) {
    auto head = good;
    spoil(head);
    EXPECT_QKGEOM_ERROR("plant: " + what, plant(head));
  };
  refused("dim", [](planted_head& h) { h.dim = 0; });
  refused("context_length", [](planted_head& h) { h.context_length = 0; });
  refused("examples", [](planted_head& h) { h.rows = -1; });
  refused("mean_q", [](planted_head& h) { h.mean_q.pop_back(); });
  refused("mean_k", [](planted_head& h) { h.mean_k = {1}; });
  refused("drift_q", [](planted_head& h) { h.drift_q = {1, 2, 3, 4}; });
  refused("drift_k", [](planted_head& h) { h.drift_k = {1}; });
  refused("root_q", [](planted_head& h) { h.root_q = {1, 2, 3}; });
  refused("root_k", [](planted_head& h) { h.root_k.assign(8, 1.0); });
}

template <class Rows>
concept viewed = requires(Rows&& rows) {
  std::forward<Rows>(rows).view();
};
static_assert(viewed<planted_rows<float>&> && viewed<const planted_rows<float>&>);
static_assert(!viewed<planted_rows<float>> && !viewed<const planted_rows<float>>);

class planted_plasticity : public testing::TestWithParam<covariance_kind> {};
INSTANTIATE_TEST_SUITE_P(models, planted_plasticity, testing::ValuesIn(all_covariance_kinds),
                         [](const auto& c) { return std::string(name_of(c.param)); });

TEST_P(planted_plasticity, falls_with_the_drift_as_the_integral_says) {
  const int d = 12;
  planted_head spec{.dim = d, .context_length = 4096, .documents = 60, .rows = 200, .seed = 77};
  const double slope = 2.5 / 4096;
  spec.drift_q.assign(d, 0);
  spec.drift_q[3] = slope;
  spec.mean_q.assign(d, 0);
  spec.mean_q[3] = slope * 2048 + 0.5;  // |mu(t)| = 0.5 + slope t
  const auto rows = plant<float>(spec);
  const auto model = model_of(rows.view(), 512, 4096, GetParam());
  const auto p = plasticity_profile(ctx, model, rows.view());
  const auto e = unbiased(empirical_profile(ctx, rows.view(), uniform_buckets{512}, 4096));
  for (std::size_t b = 1; b < p.buckets.size(); ++b) {
    const double want = isotropic_plasticity(0.5 + slope * p.buckets[b].middle(), d);
    // The keys' error (the reported one), and the model's: with 1500 queries per bucket z errs by about 1/sqrt(1500).
    const double model_error = 1 / std::sqrt(static_cast<double>(p.buckets[b].queries));
    EXPECT_NEAR(p.buckets[b].plasticity, want, 4 * p.buckets[b].standard_error + model_error) << b;
    EXPECT_NEAR(e.buckets[b].plasticity, want, 4 * e.buckets[b].standard_error + model_error) << b;
    EXPECT_LT(p.buckets[b].standard_error, 0.02);
  }
  const auto s = summarize(p, 4096);
  const double want_drop =
      isotropic_plasticity(0.5 + slope * 0.15 * 4096, d) - isotropic_plasticity(0.5 + slope * 0.9 * 4096, d);
  EXPECT_NEAR(s.drop.value, want_drop, 4 * s.drop.error + 0.03);
  EXPECT_GT(s.drop.value, 0.1);
}

TEST(planted_plasticity, queries_without_a_mean_order_pairs_at_random) {
  const auto rows = plant<double>({.dim = 8, .context_length = 1024, .documents = 30, .rows = 200, .seed = 3});
  const auto model = model_of(rows.view(), 256, 1024);
  const auto p = plasticity_profile(ctx, model, rows.view());
  for (std::size_t b = 1; b < 4; ++b) EXPECT_GT(p.buckets[b].plasticity, 0.99);
}

}  // namespace
