// SPDX-License-Identifier: MIT
#include "qkgeom/report/head_groups.hpp"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>

#include "qkgeom/stats/quantile.hpp"

namespace qkgeom {

namespace {

std::vector<double> absolute(std::vector<double> x) {
  for (double& v : x) v = std::abs(v);
  return x;
}

double mean_error(const std::vector<double>& x) {
  const double n = static_cast<double>(x.size()), m = statistic_of(head_statistic::mean, x);
  double square = 0;
  for (const double v : x) square += (v - m) * (v - m);
  return std::sqrt(square / (n * (n - 1)));
}

/// Returns the bootstrap error of a median: an order statistic's weight is the probability that it is the median of a
/// redraw, a difference of incomplete beta functions.
double median_error(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const double n = static_cast<double>(x.size()), middle = 0.5 * (n + 1), centre = x[x.size() / 2];
  double first = 0, second = 0, below = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double above = boost::math::ibeta(middle, middle, static_cast<double>(i + 1) / n), weight = above - below;
    first += weight * (x[i] - centre);
    second += weight * (x[i] - centre) * (x[i] - centre);
    below = above;
  }
  return std::sqrt(std::max(0.0, second - first * first));
}

}  // namespace

std::vector<double> values_of(const std::vector<double>& values, const std::vector<std::size_t>& group) {
  std::vector<double> x;
  for (const std::size_t h : group)
    if (!std::isnan(values[h])) x.push_back(values[h]);
  return x;
}

double statistic_of(head_statistic s, const std::vector<double>& x) {
  if (s == head_statistic::median) return quantile(x, 0.5);
  double sum = 0;
  for (const double v : x) sum += s == head_statistic::mean_abs ? std::abs(v) : v;
  return x.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(x.size());
}

double head_error_of(head_statistic s, const std::vector<double>& x) {
  if (x.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  if (s == head_statistic::median) return median_error(x);
  return mean_error(s == head_statistic::mean ? x : absolute(x));
}

double share_error(double share, std::size_t n) {
  return n < 2 ? std::numeric_limits<double>::quiet_NaN()
               : std::sqrt(share * (1 - share) / (static_cast<double>(n) - 1));
}

}  // namespace qkgeom
