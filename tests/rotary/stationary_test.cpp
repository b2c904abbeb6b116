// SPDX-License-Identifier: MIT
#include "qkgeom/rotary/stationary.hpp"

#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/rotary/detail/stationary.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

TEST(phase_sums, are_the_sums_over_tokens) {
  for (const double w : {0.0, 1e-12, 1e-7, 3e-5, 0.0004, 0.01, 0.3, 1.0, 2.0, 6.2, 6.283185307179586, -0.7})
    for (const index_t start : {0, 5, 1000})
      for (const index_t n : {1, 2, 7, 500}) {
        std::complex<long double> mean, slope;
        const long double centre = static_cast<long double>(start) + (static_cast<long double>(n) - 1) / 2;
        for (index_t t = start; t < start + n; ++t) {
          const auto phase = std::polar<long double>(1, static_cast<long double>(w) * static_cast<long double>(t));
          mean += phase / static_cast<long double>(n);
          slope += (static_cast<long double>(t) - centre) * phase;
        }
        const auto found = detail::sums_of_phases(w, start, n);
        const auto scale = static_cast<double>(n * n);
        EXPECT_LT(std::abs(std::complex<long double>(found.mean) - mean), 1e-12L) << w << ' ' << start << ' ' << n;
        EXPECT_LT(std::abs(std::complex<long double>(found.slope) - slope), 1e-12L * static_cast<long double>(scale))
            << w << ' ' << start << ' ' << n;
      }
}

/// Rows whose mean is `mean` and whose covariance over n is exactly `spread` squared, per coordinate mixed by `mix`, at
/// every position: mean +- sqrt(d) times each column of the factor.
struct exact_rows {
  index_t d;
  std::vector<double> mean, factor;  // (d), (d, d)

  std::vector<std::vector<double>> at(const captured_rope* rope, index_t t) const {
    std::vector<std::vector<double>> rows;
    for (index_t c = 0; c < d; ++c)
      for (const double sign : {-1.0, 1.0}) {
        auto x = mean;
        for (index_t i = 0; i < d; ++i) x[i] += sign * std::sqrt(static_cast<double>(d)) * factor[i * d + c];
        if (rope) vector_rotation::between(nullptr, 0, *rope, static_cast<double>(t))(x.data());
        rows.push_back(std::move(x));
      }
    return rows;
  }
};

/// A layer of one head with `rows` as queries, and as keys with the mean reversed, at each of the positions.
layer_moments moments_of(const exact_rows& rows, const captured_rope* rope, index_t length,
                         const bucket_edges& buckets) {
  auto keys = rows;
  std::reverse(keys.mean.begin(), keys.mean.end());
  std::vector<double> x, y;
  std::vector<std::int32_t> position, document;
  for (index_t t = 0; t < length; ++t) {
    for (const auto& row : keys.at(rope, t)) y.insert(y.end(), row.begin(), row.end());
    for (const auto& row : rows.at(rope, t)) {
      x.insert(x.end(), row.begin(), row.end());
      position.push_back(static_cast<std::int32_t>(t));
      document.push_back(0);
    }
  }
  const auto n = static_cast<index_t>(position.size());
  const matrix_view<const double> q{x.data(), n, rows.d, rows.d}, k{y.data(), n, rows.d, rows.d};
  const vector_view<const std::int32_t> p{position.data(), n}, e{document.data(), n};
  return accumulate(ctx, as_layer(head_view<double>{q, p, e, k, p, e}), edge_buckets{buckets.edges()},
                    {.context_length = length});
}

void expect_near(const row_moments& a, const row_moments& b) {
  const double na = static_cast<double>(a.count), nb = static_cast<double>(b.count);
  EXPECT_DOUBLE_EQ(a.mean_t, b.mean_t);
  EXPECT_NEAR(a.tt / na, b.tt / nb, 1e-9 * b.tt / nb);
  for (std::size_t i = 0; i < a.mean.size(); ++i) {
    EXPECT_NEAR(a.mean[i], b.mean[i], 1e-12);
    EXPECT_NEAR(a.xt[i] / na, b.xt[i] / nb, 1e-9);
  }
  ASSERT_EQ(a.xx.size(), b.xx.size());
  for (std::size_t i = 0; i < a.xx.size(); ++i) EXPECT_NEAR(a.xx[i] / na, b.xx[i] / nb, 1e-11) << i;
}

TEST(stationary_moments, are_those_of_rows_rotated_at_every_position) {
  const exact_rows rows{5, {1, -2, 0.5, 3, -1}, {0.9, 0, 0,   0,   0,    0.4, 1.2, 0,   0,    0,   -0.3, 0.2, 0.7,
                                                 0,   0, 0.5, 0.1, -0.6, 1.1, 0,   0.2, -0.4, 0.3, 0.3,  0.8}};
  const bucket_edges buckets({0, 40, 100, 220});
  for (const char* style : {"half", "interleaved"}) {
    const captured_rope rope{style, 4, 1.2, {0.9, 0.003}};
    // Rows at one position have the covariance over n; the moments take it over n - 1.
    auto before = moments_of(rows, nullptr, 220, buckets);
    for (auto* side : {&before.q[0].total, &before.k[0].total})
      for (double& v : side->xx) v *= static_cast<double>(side->count - 1) / static_cast<double>(side->count);
    const auto rotated = stationary_moments(before, rope, buckets), truth = moments_of(rows, &rope, 220, buckets);
    for (index_t b = 0; b < buckets.count(); ++b) {
      EXPECT_EQ(rotated.q[0].bucket[b].count, buckets.end(b) - buckets.start(b));
      expect_near(rotated.q[0].bucket[b], truth.q[0].bucket[b]);
      expect_near(rotated.k[0].bucket[b], truth.k[0].bucket[b]);
    }
    expect_near(rotated.q[0].total, truth.q[0].total);
    expect_near(rotated.k[0].total, truth.k[0].total);
    const auto by_moments = planar_rotation(ctx, rotated)[0], by_rows = planar_rotation(ctx, truth)[0];
    EXPECT_NEAR(by_moments.q.r, by_rows.q.r, 1e-9);
    EXPECT_NEAR(by_moments.k.r, by_rows.k.r, 1e-9);
    EXPECT_NEAR(by_moments.bias.context, by_rows.bias.context, 1e-9 * std::abs(by_rows.bias.context));
    EXPECT_GT(std::abs(by_rows.bias.context), 0.1);
  }
}

TEST(stationary_profile, is_that_of_gaussian_rows_rotated_to_their_positions) {
  constexpr index_t d = 8, length = 8192;
  const captured_rope rope{"half", d, 1, {1, 0.1, 0.01, 0.0005}};
  const auto buckets = uniform_buckets{length / 16}.edges(length);
  for (const std::uint64_t seed : {1, 2, 3}) {
    planted_head head{.dim = d, .context_length = length, .documents = 24, .rows = 256, .seed = seed};
    for (index_t c = 0; c < d; ++c) {
      head.mean_q.push_back(1.5 * std::sin(static_cast<double>(3 * c) + static_cast<double>(seed)));
      head.mean_k.push_back(1.5 * std::sin(static_cast<double>(2 * c) + 5 * static_cast<double>(seed)));
    }
    auto rows = plant(head);
    const auto accumulated = [&] {
      return accumulate(ctx, as_layer(rows.view()), edge_buckets{buckets.edges()}, {.context_length = length});
    };
    const auto before = accumulated();
    for (std::size_t i = 0; i < rows.q_position.size(); ++i) {
      vector_rotation::between(nullptr, 0, rope, rows.q_position[i])(&rows.q[i * d]);
      vector_rotation::between(nullptr, 0, rope, rows.k_position[i])(&rows.k[i * d]);
    }
    const auto models = fit_queries(ctx, accumulated(), {.covariance = covariance_kind::joint});
    const auto truth = plasticity_profile(ctx, models, as_layer(rows.view()), all_pairs{})[0];
    const auto drawn = stationary_profile(ctx, before, rope, buckets)[0];
    for (std::size_t b = 1; b < truth.buckets.size(); ++b) {
      const auto a = truth.buckets[b].mean(), m = drawn.buckets[b].mean();
      EXPECT_LT(std::abs(a.value - m.value), 0.02 + 4 * std::hypot(a.error, m.error)) << seed << ' ' << b;
    }
  }
}

TEST(stationary_moments, refuse_what_is_too_little) {
  const exact_rows rows{3, {1, 2, 3}, std::vector<double>(9, 0.1)};
  const bucket_edges buckets({0, 4});
  auto before = moments_of(rows, nullptr, 4, buckets);
  EXPECT_QKGEOM_ERROR("rotates 4 coordinates of heads of 3",
                      stationary_moments(before, captured_rope{"half", 4, 1, {1, 0.1}}, buckets));
  before.q[0].total = row_moments::zero(3, scatter_kind::full);
  EXPECT_QKGEOM_ERROR("2 rows or more", stationary_moments(before, {}, buckets));
}

TEST(mean_score, is_the_product_of_rotated_means) {
  const captured_rope rope{"half", 4, 1.5, {0.7, 0.02}};
  const std::vector<double> q{1, 2, -1, 0.5, 3}, k{0.2, -1, 2, 1, -2};
  for (const double distance : {0.0, 3.0, 250.0}) {
    auto x = q, y = k;
    vector_rotation::between(nullptr, 0, rope, 400)(x.data());
    vector_rotation::between(nullptr, 0, rope, 400 - distance)(y.data());
    double product = 0;
    for (std::size_t i = 0; i < 5; ++i) product += x[i] * y[i];
    EXPECT_NEAR(mean_score(q, k, rope, distance), product, 1e-12);
  }
  EXPECT_NEAR(mean_score(q, k, {}, 10), 0.2 - 2 - 2 + 0.5 - 6, 1e-14);
}

}  // namespace
