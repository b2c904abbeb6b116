// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "qkgeom/report/model_summary.hpp"
#include "qkgeom/stats/quantile.hpp"

namespace qkgeom {

/// What is told of a number over many heads. Signs differ between heads, so the mean hides what the mean of absolute
/// values shows.
enum class head_statistic { mean, mean_abs, median };
inline constexpr std::array<head_statistic, 3> all_head_statistics{head_statistic::mean, head_statistic::mean_abs,
                                                                   head_statistic::median};
constexpr std::string_view name_of(head_statistic s) {
  constexpr std::string_view names[] = {"mean", "mean_abs", "median"};
  return names[static_cast<int>(s)];
}

/// A statistic over heads with its two errors: of having seen these documents, and of having these heads.
struct head_estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();       ///< jackknife over documents
  double head_error = std::numeric_limits<double>::quiet_NaN();  ///< if the heads were drawn from many like them
};

namespace detail {

/// Values of a group's heads, nulls left out.
inline std::vector<double> picked(const std::vector<double>& values, const std::vector<std::size_t>& group) {
  std::vector<double> x;
  for (const std::size_t h : group)
    if (!std::isnan(values[h])) x.push_back(values[h]);
  return x;
}

inline double mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return x.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(x.size());
}

inline std::vector<double> absolute(std::vector<double> x) {
  for (double& v : x) v = std::abs(v);
  return x;
}

/// Standard error of a mean of independent values.
inline double mean_error(const std::vector<double>& x) {
  const double n = static_cast<double>(x.size()), m = mean(x);
  if (x.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  double square = 0;
  for (const double v : x) square += (v - m) * (v - m);
  return std::sqrt(square / (n * (n - 1)));
}

/// Standard error of a median: the bootstrap's, in closed form (Maritz and Jarrett 1978). The weight of an order
/// statistic is the probability that it is the median of a redraw, a difference of incomplete beta functions.
inline double median_error(std::vector<double> x) {
  if (x.size() < 2) return std::numeric_limits<double>::quiet_NaN();
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

}  // namespace detail

/// The statistic of some values; NaN of none.
inline double statistic_of(head_statistic s, const std::vector<double>& x) {
  if (s == head_statistic::median) return quantile(x, 0.5);
  return detail::mean(s == head_statistic::mean ? x : detail::absolute(x));
}

/// Its standard error when the values are a draw of independent heads; NaN below two.
inline double head_error_of(head_statistic s, const std::vector<double>& x) {
  if (s == head_statistic::median) return detail::median_error(x);
  return detail::mean_error(s == head_statistic::mean ? x : detail::absolute(x));
}

/// Share of a group's heads for which `in(head index)` holds; NaN of none.
template <class In>
double share_of(const std::vector<std::size_t>& group, const In& in) {
  double n = 0;
  for (const std::size_t h : group) n += in(h) ? 1 : 0;
  return group.empty() ? std::numeric_limits<double>::quiet_NaN() : n / static_cast<double>(group.size());
}

/// Standard error of a share of n heads drawn; NaN below two.
inline double share_error(double share, std::size_t n) {
  return n < 2 ? std::numeric_limits<double>::quiet_NaN()
               : std::sqrt(share * (1 - share) / (static_cast<double>(n) - 1));
}

}  // namespace qkgeom
