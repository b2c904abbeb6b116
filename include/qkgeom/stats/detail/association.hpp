// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace qkgeom::detail {

/// Returns x minus its mean, scaled to length 1; empty if x has no variance.
inline std::vector<double> unit_deviations(std::vector<double> x) {
  const double n = static_cast<double>(x.size()), mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double square = 0, size = 0;
  for (double& v : x) {
    size = std::max(size, std::abs(v));
    v -= mean;
    square += v * v;
  }
  // Values that differ from their mean only by rounding count as equal.
  if (!(square > n * (4e-16 * size) * (4e-16 * size))) return {};
  for (double& v : x) v /= std::sqrt(square);
  return x;
}

inline double sign(double v) { return static_cast<double>((v > 0) - (v < 0)); }

/// Returns the signs of x_i - x_j for j < i, scaled to length 1; empty if all x are equal.
inline std::vector<double> unit_pair_signs(const std::vector<double>& x) {
  std::vector<double> s;
  double differ = 0;
  for (std::size_t i = 1; i < x.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      s.push_back(sign(x[i] - x[j]));
      differ += std::abs(s.back());
    }
  if (!(differ > 0)) return {};
  for (double& v : s) v /= std::sqrt(differ);
  return s;
}

}  // namespace qkgeom::detail
