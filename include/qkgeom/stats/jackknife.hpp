// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace qkgeom {

/// A number and its standard error; NaN if missing. `half_width` (interval.hpp) gives its interval.
struct estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();
  double freedom = 0;  ///< degrees of freedom of the error: documents that count, less one
};

/// Fewest documents, or blocks of documents, for which an error is given.
inline constexpr int least_documents = 3;

/// Computes the jackknife error of a statistic from its values `without` one part each; NaNs do not count. Gives no
/// error for fewer than `least` values (the default is for documents; heads need two).
inline estimate jackknife(double value, const std::vector<double>& without, int least = least_documents) {
  double n = 0, mean = 0, square = 0;
  for (const double v : without)
    if (!std::isnan(v)) {
      mean += v;
      ++n;
    }
  if (n < least) return {value};
  mean /= n;
  for (const double v : without)
    if (!std::isnan(v)) square += (v - mean) * (v - mean);
  return {value, std::sqrt((n - 1) / n * square), n - 1};
}
inline double jackknife_error(const std::vector<double>& without, int least = least_documents) {
  return jackknife(0, without, least).error;
}

/// Returns the difference a - b of numbers over independent documents; degrees of freedom by Welch and Satterthwaite.
inline estimate independent_difference(const estimate& a, const estimate& b) {
  const double x = a.error * a.error, y = b.error * b.error;
  const double freedom = (x + y) * (x + y) / (x * x / a.freedom + y * y / b.freedom);
  return {a.value - b.value, std::sqrt(x + y), x + y > 0 ? freedom : std::fmin(a.freedom, b.freedom)};
}

/// Returns the ratio of the sums of `sum` and `weight` over documents, both (documents), without each of them; NaN
/// for a document of no weight, and without weight.
inline std::vector<double> ratios_without(const std::vector<double>& sum, const std::vector<double>& weight) {
  double all = 0, total = 0;
  for (std::size_t e = 0; e < sum.size(); ++e) {
    all += sum[e];
    total += weight[e];
  }
  std::vector<double> without;
  for (std::size_t e = 0; e < sum.size(); ++e)
    without.push_back(weight[e] > 0 ? (all - sum[e]) / (total - weight[e]) : std::numeric_limits<double>::quiet_NaN());
  return without;
}

/// Returns the ratio of both sums with its jackknife error over documents of weight above 0; NaN without weight.
inline estimate ratio_of_sums(const std::vector<double>& sum, const std::vector<double>& weight) {
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  if (!(total > 0)) return {};
  return jackknife(std::accumulate(sum.begin(), sum.end(), 0.0) / total, ratios_without(sum, weight));
}

}  // namespace qkgeom
