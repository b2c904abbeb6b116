// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Returns a quantile of ascending values, linear between order statistics (type 7 of Hyndman and Fan 1996); NaN if x
/// is empty. Throws unless `share` lies in [0, 1].
inline double quantile_of_sorted(const std::vector<double>& x, double share) {
  require(share >= 0 && share <= 1, "quantile: the share must lie in [0, 1], not ", share);
  if (x.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double rank = share * static_cast<double>(x.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const double rest = rank - static_cast<double>(below);
  return rest > 0 ? x[below] + rest * (x[below + 1] - x[below]) : x[below];
}

/// Returns a quantile of values in any order; NaNs do not count.
inline double quantile(std::vector<double> x, double share) {
  x.erase(std::remove_if(x.begin(), x.end(), [](double v) { return std::isnan(v); }), x.end());
  std::sort(x.begin(), x.end());
  return quantile_of_sorted(x, share);
}

}  // namespace qkgeom
