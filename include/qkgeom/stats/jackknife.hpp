// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace qkgeom {

/// A number and its standard error; NaN where there is none.
struct estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();
};

/// Jackknife error of a statistic from its values `without` one document each; NaNs do not count. NaN for fewer than
/// two values.
inline double jackknife_error(const std::vector<double>& without) {
  double n = 0, mean = 0, square = 0;
  for (const double v : without)
    if (!std::isnan(v)) {
      mean += v;
      ++n;
    }
  if (n < 2) return std::numeric_limits<double>::quiet_NaN();
  mean /= n;
  for (const double v : without)
    if (!std::isnan(v)) square += (v - mean) * (v - mean);
  return std::sqrt((n - 1) / n * square);
}

/// sum of `sum` / sum of `weight` over documents, both (documents), with its jackknife error over documents of weight
/// above 0; NaN without weight.
inline estimate ratio_of_sums(const std::vector<double>& sum, const std::vector<double>& weight) {
  double all = 0, total = 0;
  for (std::size_t e = 0; e < sum.size(); ++e) {
    all += sum[e];
    total += weight[e];
  }
  if (!(total > 0)) return {};
  std::vector<double> without;
  for (std::size_t e = 0; e < sum.size(); ++e)
    if (weight[e] > 0) without.push_back((all - sum[e]) / (total - weight[e]));
  return {all / total, jackknife_error(without)};
}

}  // namespace qkgeom
