// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/model/detail/kolmogorov_smirnov.hpp"

namespace qkgeom {

/// Returns the probability that the two-sided Kolmogorov-Smirnov distance of n independent values from their continuous
/// distribution is at least `distance`: twice the one-sided tail if that is below 0.1, else exactly up to n = 128, else
/// by a series corrected for n. The relative error is below 1e-3, in small tails below 1e-4. Throws if n < 1.
inline double kolmogorov_smirnov_p(index_t n, double distance) {
  require(n >= 1, "kolmogorov_smirnov_p needs at least 1 value, not ", n);
  if (std::isnan(distance)) return distance;
  if (!(distance > 0.5 / static_cast<double>(n))) return 1;
  if (distance >= 1) return 0;
  const double series = n > 128 ? detail::kolmogorov_series(n, distance) : 0;
  if (series > 0.11) return std::min(1.0, series);
  const double twice = 2 * detail::smirnov_tail(n, distance);
  if (twice < 0.1) return twice;
  return n > 128 ? std::clamp(series, 0.0, 1.0) : 1 - detail::kolmogorov_exact(n, distance);
}

/// Returns sup |F_n(x) - Phi(x)| of ascending values, Phi standard normal; 0 for no values.
inline double kolmogorov_smirnov_distance(const std::vector<double>& ascending) {
  const double n = static_cast<double>(ascending.size());
  double distance = 0;
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const double p = 0.5 * std::erfc(-ascending[i] / std::numbers::sqrt2);
    const double below = static_cast<double>(i) / n, above = static_cast<double>(i + 1) / n;
    distance = std::max({distance, above - p, p - below});
  }
  return distance;
}

}  // namespace qkgeom
