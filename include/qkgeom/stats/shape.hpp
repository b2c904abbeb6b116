// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <limits>
#include <vector>

namespace qkgeom {

/// Moments of a sample; NaN for too few values. Skewness, kurtosis and bimodality need variance.
struct sample_shape {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();   ///< standard deviation (n - 1)
  double skewness = std::numeric_limits<double>::quiet_NaN();    ///< bias-corrected; 3 values or more
  double kurtosis = std::numeric_limits<double>::quiet_NaN();    ///< excess, bias-corrected; 4 values or more
  double bimodality = std::numeric_limits<double>::quiet_NaN();  ///< 4 values or more; 5/9 for a uniform distribution
};

/// Computes the shape of a sample. The bimodality coefficient is (s^2 + 1) / (k + 3 (n - 1)^2 / ((n - 2)(n - 3))), s
/// and k being the bias-corrected skewness and excess kurtosis: 1/3 for many normal values, 1 for two points.
inline sample_shape shape_of(const std::vector<double>& x) {
  sample_shape s;
  if (x.empty()) return s;
  const double n = static_cast<double>(x.size());
  double mean = 0, m2 = 0, m3 = 0, m4 = 0;
  for (const double v : x) mean += (v - x[0]) / n;  // exact where all values are equal
  mean += x[0];
  for (const double v : x) {
    const double e = v - mean;
    m2 += e * e / n;
    m3 += e * e * e / n;
    m4 += e * e * e * e / n;
  }
  s.mean = mean;
  if (n > 1) s.deviation = std::sqrt(m2 * n / (n - 1));
  // For equal values m2 is only rounding, which has no shape.
  if (n < 3 ||
      !(m2 > 16 * std::numeric_limits<double>::epsilon() * std::numeric_limits<double>::epsilon() * mean * mean))
    return s;
  s.skewness = std::sqrt(n * (n - 1)) / (n - 2) * m3 / std::pow(m2, 1.5);
  if (n < 4) return s;
  s.kurtosis = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (m4 / (m2 * m2) - 3) + 6);
  s.bimodality = (s.skewness * s.skewness + 1) / (s.kurtosis + 3 * (n - 1) * (n - 1) / ((n - 2) * (n - 3)));
  return s;
}

}  // namespace qkgeom
