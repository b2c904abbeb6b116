// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/component_weights.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/model/kolmogorov_smirnov.hpp"
#include "qkgeom/stats/moments.hpp"
#include "qkgeom/stats/quantile.hpp"
#include "qkgeom/stats/shape.hpp"

namespace qkgeom {

/// Normality of a sample. The two-sided Kolmogorov-Smirnov distance compares the values, standardised by their mean and
/// standard deviation (n - 1), with the standard normal distribution; its p treats that distribution as given.
struct normality {
  index_t count = 0;
  double skewness = std::numeric_limits<double>::quiet_NaN();  ///< bias-corrected; NaN for fewer than 3 values
  double kurtosis = std::numeric_limits<double>::quiet_NaN();  ///< excess, bias-corrected; NaN for fewer than 4
  double ks_distance = std::numeric_limits<double>::quiet_NaN();
  double ks_p = std::numeric_limits<double>::quiet_NaN();
};

/// Medians of `normality` over samples.
struct normality_medians {
  index_t samples = 0;
  double abs_skewness = std::numeric_limits<double>::quiet_NaN();
  double abs_kurtosis = std::numeric_limits<double>::quiet_NaN();
  double ks_distance = std::numeric_limits<double>::quiet_NaN();
  double ks_p = std::numeric_limits<double>::quiet_NaN();
  double share_below_alpha = std::numeric_limits<double>::quiet_NaN();  ///< share of samples with ks_p < alpha
};

/// Checks the normality of x. Equal values count as normal: skewness, kurtosis and distance 0, p 1.
inline normality check_normality(std::vector<double> x) {
  normality r{.count = static_cast<index_t>(x.size())};
  if (x.size() < 2) return r;
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  if (*low == *high) return {r.count, 0, 0, 0, 1};
  const auto shape = shape_of(x);
  r.skewness = shape.skewness;
  r.kurtosis = shape.kurtosis;
  std::sort(x.begin(), x.end());
  for (double& v : x) v = (v - shape.mean) / shape.deviation;
  r.ks_distance = kolmogorov_smirnov_distance(x);
  r.ks_p = kolmogorov_smirnov_p(r.count, r.ks_distance);
  return r;
}

/// Returns medians over samples; NaNs do not count. Kolmogorov-Smirnov results are taken from the samples with indices
/// `tested`; empty: from all. `alpha` is the level of the tests.
inline normality_medians medians(const std::vector<normality>& samples, double alpha,
                                 const std::vector<index_t>& tested = {}) {
  std::vector<double> skewness, kurtosis, distance, p;
  for (const auto& s : samples) {
    skewness.push_back(std::abs(s.skewness));
    kurtosis.push_back(std::abs(s.kurtosis));
  }
  double below = 0;
  const std::size_t tests = tested.empty() ? samples.size() : tested.size();
  for (std::size_t i = 0; i < tests; ++i) {
    const auto& s = samples[tested.empty() ? i : tested[i]];
    if (std::isnan(s.ks_p)) continue;
    distance.push_back(s.ks_distance);
    p.push_back(s.ks_p);
    below += s.ks_p < alpha;
  }
  const double share = p.empty() ? std::numeric_limits<double>::quiet_NaN() : below / static_cast<double>(p.size());
  return {static_cast<index_t>(samples.size()), quantile(std::move(skewness), 0.5), quantile(std::move(kurtosis), 0.5),
          quantile(std::move(distance), 0.5),   quantile(std::move(p), 0.5),        share};
}

struct fit_check_options {
  double alpha = 0.01;         ///< level of the Kolmogorov-Smirnov tests
  index_t max_dimensions = 0;  ///< coordinates 2..d tested, drawn by `seed` if there are more; 0: all
  std::uint64_t seed = 0;
};

/// Fit of the Gaussian query model with a linear drift to the observed queries of a head.
struct fit_checks_result {
  normality residual;       ///< eps: coordinate 1 minus its drift
  normality_medians noise;  ///< coordinates 2..d of the rotated queries, over all positions
  double r2_pos = 0;        ///< R^2 of a coordinate's regression on position, mean over coordinates
  double beta_norm = 0;     ///< |beta|, per token
  double r2_scalar = 0;     ///< R^2 of the regression of log2(t + 1) on the query's projection along beta
  double mae_baseline = 0;  ///< mean |log2(t + 1) - its mean|
  double mae_proj = 0;      ///< mean absolute error of that regression
  double mae_ratio() const { return mae_baseline > 0 ? mae_proj / mae_baseline : 1.0; }
};

/// Checks the fit of each query head of a layer whose coordinates are multiplied by `signs`, one vector (d) per query
/// head; empty: as captured. `query_moments` belong to exactly these rows with these signs. Needs rows on the host.
/// Throws if the moments belong to other rows.
template <context Context, class T>
std::vector<fit_checks_result> fit_checks(Context& ctx, const std::vector<row_moments>& query_moments,
                                          const layer_view<T, memory_space::host>& layer,
                                          std::vector<std::vector<double>> signs,
                                          const fit_check_options& options = {});

/// Checks the fit of each query head of a layer (docs/mathematics.md, Query model); `moments` belong to exactly these
/// rows. Needs rows on the host. Throws if the moments belong to other rows.
template <context Context, class T>
std::vector<fit_checks_result> fit_checks(Context& ctx, const layer_moments& moments,
                                          const layer_view<T, memory_space::host>& layer,
                                          const fit_check_options& options = {}) {
  std::vector<row_moments> queries;
  for (const auto& side : moments.q) queries.push_back(side.total);
  return fit_checks(ctx, queries, layer, std::vector<std::vector<double>>(queries.size()), options);
}

/// Does the same for one head.
template <context Context, class T>
fit_checks_result fit_checks(Context& ctx, const head_moments& moments, const head_view<T, memory_space::host>& head,
                             const fit_check_options& options = {}) {
  return fit_checks(ctx, std::vector<row_moments>{moments.q.total}, as_layer(head), {{}}, options).front();
}

namespace detail {

/// The basis of the checks: coordinates times `sign` (empty: as captured), with the drift reflected to coordinate 1.
struct query_basis {
  std::vector<double> sign;
  std::vector<double> reflector;
};

/// Returns 2 u . x of every row, u the reflector.
template <class T>
std::vector<double> twice_along(const matrix_view<const T>& x, const query_basis& basis) {
  std::vector<double> w(x.rows);
  if (basis.reflector.empty()) return w;
  auto u = dense::scaled(basis.reflector, 2);
  for (std::size_t c = 0; c < basis.sign.size(); ++c) u[c] *= basis.sign[c];
  for (index_t i = 0; i < x.rows; ++i) {
    const T* const row = x.row(i);
    double sum = 0;
    for (std::size_t c = 0; c < u.size(); ++c) sum += u[c] * static_cast<double>(row[c]);
    w[i] = sum;
  }
  return w;
}

/// Returns coordinate c of every row in the basis; `along` is the result of `twice_along`.
template <class T>
std::vector<double> coordinate(const matrix_view<const T>& x, const query_basis& basis,
                               const std::vector<double>& along, index_t c) {
  const double sign = basis.sign.empty() ? 1.0 : basis.sign[c];
  const double u = basis.reflector.empty() ? 0.0 : basis.reflector[c];
  std::vector<double> y(along.size());
  for (index_t i = 0; i < x.rows; ++i) y[i] = sign * static_cast<double>(x(i, c)) - u * along[i];
  return y;
}

/// Draws at most `max_dimensions` of the `noise` coordinates 2..d (indices 0..d-2) without replacement; empty: all.
inline std::vector<index_t> drawn_dimensions(index_t noise, const fit_check_options& options) {
  if (options.max_dimensions <= 0 || noise <= options.max_dimensions) return {};
  const random_stream stream{options.seed, 0, 0, draw::fit_dimension};
  std::vector<std::pair<double, index_t>> order;
  for (index_t c = 0; c < noise; ++c) order.emplace_back(stream.uniform(c), c);
  std::sort(order.begin(), order.end());
  std::vector<index_t> chosen;
  for (index_t i = 0; i < options.max_dimensions; ++i) chosen.push_back(order[i].second);
  return chosen;
}

/// Checks the fit along beta: `first` is coordinate 1 of every query, `beta` its slope.
inline void check_drift(fit_checks_result& r, std::vector<double> first, const vector_view<const std::int32_t>& t,
                        double mean_t, double beta) {
  const double n = static_cast<double>(first.size());
  double mean = 0, mean_y = 0;
  std::vector<double> y(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    y[i] = std::log2(static_cast<double>(t[i]) + 1.0);
    mean += first[i] / n;
    mean_y += y[i] / n;
  }
  double ss = 0, sy = 0, yy = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] -= mean;
    y[i] -= mean_y;
    ss += first[i] * first[i];
    sy += first[i] * y[i];
    yy += y[i] * y[i];
  }
  const bool informative = beta > 0 && ss > 0;
  const double slope_y = informative ? sy / ss : 0.0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    r.mae_baseline += std::abs(y[i]) / n;
    r.mae_proj += std::abs(y[i] - slope_y * first[i]) / n;
    first[i] -= beta * (static_cast<double>(t[i]) - mean_t);
  }
  const double rho = informative ? correlation(sy, ss, yy) : 0.0;
  r.r2_scalar = rho * rho;
  r.residual = check_normality(std::move(first));
}

}  // namespace detail

template <context Context, class T>
std::vector<fit_checks_result> fit_checks(Context& ctx, const std::vector<row_moments>& query_moments,
                                          const layer_view<T, memory_space::host>& layer,
                                          std::vector<std::vector<double>> signs, const fit_check_options& options) {
  check_shapes(layer);
  const index_t heads = layer.q.heads, d = layer.q.dim;
  require(static_cast<index_t>(query_moments.size()) == heads, "fit_checks: moments of ", query_moments.size(),
          " heads for ", heads, " query heads");
  std::vector<fit_checks_result> results(heads);
  std::vector<detail::query_basis> basis(results.size());
  std::vector<std::vector<double>> along(results.size());
  ctx.for_each(heads, [&](index_t h) {
    const auto& m = query_moments[h];
    require(m.count == layer.q.rows && m.dim() == d, "fit_checks: the moments are of ", m.count, " rows of size ",
            m.dim(), ", the queries of ", layer.q.rows, " rows of size ", d);
    const auto beta = dense::scaled(m.xt, slope(1.0, m.tt));
    basis[h] = {std::move(signs[h]), householder_reflector(beta)};
    along[h] = detail::twice_along(layer.q.head(h), basis[h]);
    auto& r = results[h];
    r.beta_norm = dense::norm(beta);
    for (const double r2 : component_weights(m).r2) r.r2_pos += r2 / static_cast<double>(d);
    detail::check_drift(r, detail::coordinate(layer.q.head(h), basis[h], along[h], 0), layer.q_position, m.mean_t,
                        r.beta_norm);
  });
  std::vector<normality> noise(heads * (d - 1));
  ctx.for_each(heads * (d - 1), [&](index_t item) {
    const index_t h = item / (d - 1), c = 1 + item % (d - 1);
    noise[item] = check_normality(detail::coordinate(layer.q.head(h), basis[h], along[h], c));
  });
  const auto tested = detail::drawn_dimensions(d - 1, options);
  for (index_t h = 0; h < heads; ++h) {
    const auto first = noise.begin() + h * (d - 1);
    results[h].noise = medians({first, first + (d - 1)}, options.alpha, tested);
  }
  return results;
}

}  // namespace qkgeom
