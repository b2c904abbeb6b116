// SPDX-License-Identifier: MIT
// Planted heads on which contexts are compared, and the distance of two profiles.
#pragma once

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "tests/common/testing.hpp"
#include "tests/plasticity/small_head.hpp"

namespace qkgeom::test {

/// `common` is the mean of every coordinate of the keys.
inline planted_head compared_head(index_t dim, index_t documents, index_t rows, double common) {
  planted_head spec{.dim = dim, .context_length = 1000, .documents = documents, .rows = rows, .seed = 21};
  spec.drift_q.assign(dim, 2e-3);
  spec.drift_k.assign(dim, 1e-3);
  spec.mean_q.assign(dim, 0.3);
  spec.mean_k.assign(dim, common);
  return spec;
}

/// Heads of small integers, so that scores are exact and many of them tie.
template <class T>
planted_rows<T> rows_with_ties(index_t documents, index_t rows) {
  auto planted = plant<T>(compared_head(4, documents, rows, 0));
  const random_stream draws{.seed = 5};
  for (std::size_t i = 0; i < planted.k.size(); ++i) {
    planted.k[i] = round_to<T>(static_cast<float>(draws.below(i, 5)) - 1.0f);
    planted.q[i] = round_to<T>(static_cast<float>(draws.below((std::uint64_t{1} << 32) + i, 5)) - 2.0f);
  }
  return planted;
}

/// A weight that reads every field of a pair, and leaves some pairs out.
struct odd_weight {
  QKGEOM_HD double operator()(const key_pair& p) const {
    if (p.distance() < 40 || (p.i + p.j) % 5 == 0) return 0;
    return 1 + 0.1 * static_cast<double>(p.i) + 0.03 * static_cast<double>(p.j * p.keys) + 1e-3 * p.t_j + 2e-3 * p.t_i +
           0.2 * p.document_i + 0.7 * p.document_j + 1e-3 * p.tau;
  }
};

template <context Context, class Head>
auto moments_of(Context& on, const Head& head) {
  return accumulate(on, head, uniform_buckets{150}, {.context_length = 1000});
}

/// Largest difference of two profiles and of their heatmaps; expects them to be over the same pairs.
inline double distance(const plasticity_profile_result& a, const plasticity_profile_result& b) {
  double worst = 0;
  EXPECT_EQ(a.buckets.size(), b.buckets.size());
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    EXPECT_EQ(a.buckets[i].pairs, b.buckets[i].pairs);
    EXPECT_EQ(a.buckets[i].document_weight, b.buckets[i].document_weight);
    EXPECT_EQ(std::isnan(a.buckets[i].plasticity), std::isnan(b.buckets[i].plasticity));
    if (!std::isnan(b.buckets[i].plasticity))
      worst = std::fmax(worst, std::abs(a.buckets[i].plasticity - b.buckets[i].plasticity));
  }
  EXPECT_EQ(a.heatmap.sum.size(), b.heatmap.sum.size());
  for (std::size_t c = 0; c < a.heatmap.sum.size(); ++c) {
    EXPECT_EQ(a.heatmap.weight[c], b.heatmap.weight[c]);
    if (a.heatmap.weight[c] > 0)
      worst = std::fmax(worst, std::abs(a.heatmap.sum[c] - b.heatmap.sum[c]) / a.heatmap.weight[c]);
  }
  return worst;
}

/// Expects the same bits in both, NaN where the other is NaN.
inline void expect_same(double a, double b) {
  if (std::isnan(b))
    EXPECT_TRUE(std::isnan(a));
  else
    EXPECT_EQ(a, b);
}

inline void expect_same(const plasticity_profile_result& a, const plasticity_profile_result& b) {
  ASSERT_EQ(a.buckets.size(), b.buckets.size());
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.documents, b.documents);
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    const auto &x = a.buckets[i], &y = b.buckets[i];
    EXPECT_EQ(x.pairs, y.pairs);
    EXPECT_EQ(x.drawn, y.drawn);
    expect_same(x.plasticity, y.plasticity);
    expect_same(x.standard_error, y.standard_error);
    expect_same(x.sampling_error, y.sampling_error);
    EXPECT_EQ(x.document_sum, y.document_sum);
    EXPECT_EQ(x.document_weight, y.document_weight);
    EXPECT_EQ(x.term_sum, y.term_sum);
  }
  EXPECT_EQ(a.heatmap.sum, b.heatmap.sum);
  EXPECT_EQ(a.heatmap.weight, b.heatmap.weight);
  for (const auto& array : heatmap_arrays) EXPECT_EQ(a.heatmap.terms.*array.values, b.heatmap.terms.*array.values);
}

inline void expect_same(const std::vector<plasticity_profile_result>& a,
                        const std::vector<plasticity_profile_result>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t h = 0; h < a.size(); ++h) expect_same(a[h], b[h]);
}

/// Largest difference of the standard errors of two profiles.
inline double distance_of_errors(const plasticity_profile_result& a, const plasticity_profile_result& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    EXPECT_EQ(std::isnan(a.buckets[i].standard_error), std::isnan(b.buckets[i].standard_error));
    if (!std::isnan(b.buckets[i].standard_error))
      worst = std::fmax(worst, std::abs(a.buckets[i].standard_error - b.buckets[i].standard_error));
  }
  return worst;
}

/// Terms of two profiles, document by document; errors are relative to the term, those of variances to v.
inline void terms_agree(const plasticity_profile_result& got, const plasticity_profile_result& want, double bound) {
  for (std::size_t b = 0; b < want.buckets.size(); ++b) {
    const auto &x = got.buckets[b].term_sum, &y = want.buckets[b].term_sum;
    const auto n = want.buckets[b].document_sum.size();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto term = i / n, e = i % n;
      const bool of_v = term >= static_cast<std::size_t>(pair_term::drift_variance) &&
                        term <= static_cast<std::size_t>(pair_term::cross_variance);
      const double v = y[static_cast<std::size_t>(pair_term::drift_variance) * n + e] +
                       y[static_cast<std::size_t>(pair_term::content_variance) * n + e];
      EXPECT_NEAR(x[i], y[i], bound * (of_v ? v : std::abs(y[i])));
    }
  }
}

/// Expects observed queries of `on` to be as the CPU's in f64, where that is asked for and where f32 would not hold
/// the numbers.
template <context Context>
void expect_f64_where_it_is_needed(Context& on) {
  cpu_context cpu{{.threads = 2}};
  const auto observed = [](auto& context, const planted_rows<float>& rows, std::optional<pair_precision> precision) {
    return empirical_profile(context, rows.view(), uniform_buckets{150}, 1000, {.precision = precision});
  };
  auto rows = plant<float>(compared_head(24, 2, 150, 3));
  test::bring_scores_close(rows);
  const auto want = observed(cpu, rows, pair_precision::f64);
  EXPECT_LE(distance(observed(on, rows, pair_precision::f64), want), 1e-12);
  EXPECT_GT(distance(observed(on, rows, {}), want), 1e-12);
  for (const int power : {-90, 90}) {
    auto scaled = rows;
    for (auto* side : {&scaled.q, &scaled.k})
      for (float& x : *side) x = std::ldexp(x, power);
    EXPECT_LE(distance(observed(on, scaled, {}), want), 1e-12) << power;
  }
}

}  // namespace qkgeom::test
