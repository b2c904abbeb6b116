// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Coefficients of association of two columns: Pearson's r, Spearman's rho (r of mid ranks), Kendall's tau-b.
enum class association { pearson, spearman, kendall };

inline std::string_view name_of(association kind) {
  return kind == association::pearson ? "pearson" : kind == association::spearman ? "spearman" : "kendall";
}

/// Returns ranks from 1; equal values share the mean of their ranks.
inline std::vector<double> mid_ranks(const std::vector<double>& x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  std::vector<double> ranks(x.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && x[order[end]] == x[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = 0.5 * static_cast<double>(begin + end + 1);
  }
  return ranks;
}

namespace detail {

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

}  // namespace detail

/// Association of x with y in any order of its rows, prepared once for many orders (permutation tests).
class ordered_association {
 public:
  /// Takes x and y, both (n). Throws `error` if they differ in length or a value is not finite.
  ordered_association(association kind, const std::vector<double>& x, const std::vector<double>& y) : kind_(kind) {
    require(x.size() == y.size(), "an association needs as many x as y, not ", x.size(), " and ", y.size());
    for (const auto* values : {&x, &y})
      for (const double v : *values) require(std::isfinite(v), "an association needs finite numbers, not ", v);
    const auto unit = [kind](const std::vector<double>& values) {
      if (kind == association::kendall) return detail::unit_pair_signs(values);
      return detail::unit_deviations(kind == association::spearman ? mid_ranks(values) : values);
    };
    x_ = unit(x);
    y_ = unit(y);
  }

  /// Returns the association of x_i with y_order[i]; NaN if x or y has no variance.
  double operator()(const std::vector<std::size_t>& order) const {
    if (x_.empty() || y_.empty()) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    if (kind_ != association::kendall) {
      for (std::size_t i = 0; i < order.size(); ++i) sum += x_[i] * y_[order[i]];
      return std::clamp(sum, -1.0, 1.0);
    }
    for (std::size_t i = 1, pair = 0; i < order.size(); ++i)
      for (std::size_t j = 0; j < i; ++j, ++pair) {
        const std::size_t a = order[i], b = order[j];
        sum += x_[pair] * (a > b ? y_[a * (a - 1) / 2 + b] : -y_[b * (b - 1) / 2 + a]);
      }
    return std::clamp(sum, -1.0, 1.0);
  }

 private:
  association kind_;
  std::vector<double> x_, y_;  ///< deviations (n) or pair signs (n (n - 1) / 2)
};

/// Returns the association of x and y, both (n); NaN if one has no variance. Throws as `ordered_association` does.
inline double associate(association kind, const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return ordered_association(kind, x, y)(order);
}

/// Returns the partial association of x and y given z: (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2)(1 - r_yz^2)); NaN if x or
/// y is a function of z.
inline double partial_association(association kind, const std::vector<double>& x, const std::vector<double>& y,
                                  const std::vector<double>& z) {
  const double xy = associate(kind, x, y), xz = associate(kind, x, z), yz = associate(kind, y, z);
  const double rest = (1 - xz * xz) * (1 - yz * yz);
  return rest > 1e-12 ? (xy - xz * yz) / std::sqrt(rest) : std::numeric_limits<double>::quiet_NaN();
}

/// A least-squares line y = intercept + slope x, with its residual deviation (n - 2).
struct fitted_line {
  std::size_t n = 0;
  double slope = 0, intercept = 0, deviation = 0;
  double mean_x = 0, square_x = 0;  ///< mean of x; sum of squares about it

  double value(double x) const { return intercept + slope * x; }
  /// Returns the standard error of a new y at x.
  double prediction_error(double x) const {
    const double away = x - mean_x;
    return deviation * std::sqrt(1 + 1 / static_cast<double>(n) + away * away / square_x);
  }
};

/// Fits the least-squares line through (x, y), both (n). Throws `error` if n < 3 or all x are equal.
inline fitted_line fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  require(x.size() == y.size() && x.size() >= 3, "a line needs three points or more, not ", x.size(), " x and ",
          y.size(), " y");
  fitted_line line{.n = x.size()};
  const double n = static_cast<double>(x.size());
  double mean_y = 0, product = 0, rest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    line.mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    line.square_x += (x[i] - line.mean_x) * (x[i] - line.mean_x);
    product += (x[i] - line.mean_x) * (y[i] - mean_y);
  }
  require(!detail::unit_deviations(x).empty(), "a line needs two different x");
  line.slope = product / line.square_x;
  line.intercept = mean_y - line.slope * line.mean_x;
  for (std::size_t i = 0; i < x.size(); ++i) rest += (y[i] - line.value(x[i])) * (y[i] - line.value(x[i]));
  line.deviation = std::sqrt(rest / (n - 2));
  return line;
}

}  // namespace qkgeom
