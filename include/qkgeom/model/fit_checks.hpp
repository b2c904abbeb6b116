// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/stats/moments.hpp"

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
inline normality check_normality(std::vector<double> x);

/// Returns medians over samples; NaNs do not count. Kolmogorov-Smirnov results are taken from the samples with indices
/// `tested`; empty: from all. `alpha` is the level of the tests.
inline normality_medians medians(const std::vector<normality>& samples, double alpha,
                                 const std::vector<index_t>& tested = {});

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

}  // namespace qkgeom

#include "qkgeom/model/detail/fit_checks.hpp"
