// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Returns the probability that the two-sided Kolmogorov-Smirnov distance of n independent values from their continuous
/// distribution is at least `distance`: twice the one-sided tail if that is below 0.1, else exactly up to n = 128, else
/// by a series corrected for n. The relative error is below 1e-3, in small tails below 1e-4. Throws if n < 1.
inline double kolmogorov_smirnov_p(index_t n, double distance);

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

namespace detail {

/// Returns P(D_n^+ >= d) of the one-sided statistic (Birnbaum & Tingey 1951) as a sum of positive terms, which keeps
/// the relative precision of small tails.
inline double smirnov_tail(index_t n, double d) {
  const double size = static_cast<double>(n);
  double sum = 0, log_choose = 0;
  for (index_t j = 0; j <= static_cast<index_t>(size * (1 - d)); ++j) {
    const double a = static_cast<double>(j), x = d + a / size;
    if (x < 1) sum += std::exp(log_choose + (a - 1) * std::log(x) + (size - a) * std::log1p(-x));
    log_choose += std::log((size - a) / (a + 1));
  }
  return std::min(1.0, d * sum);
}

/// A square matrix times 10^exponent, for entries beyond the range of double.
struct scaled_matrix {
  std::size_t size = 0;
  std::vector<double> entry;
  int exponent = 0;

  scaled_matrix times(const scaled_matrix& b) const {
    scaled_matrix c{size, std::vector<double>(size * size), exponent + b.exponent};
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t k = 0; k < size; ++k)
        for (std::size_t j = 0; j < size; ++j) c.entry[i * size + j] += entry[i * size + k] * b.entry[k * size + j];
    if (c.entry[(size / 2) * (size + 1)] > 1e140) {
      for (double& x : c.entry) x *= 1e-140;
      c.exponent += 140;
    }
    return c;
  }
};

/// Returns P(D_n < d) exactly, for small n: the middle entry of the n-th power of a matrix of size about 2nd (Durbin
/// 1973; Marsaglia, Tsang & Wang 2003).
inline double kolmogorov_exact(index_t n, double d) {
  const double nd = static_cast<double>(n) * d;
  const auto k = static_cast<std::size_t>(nd) + 1, m = 2 * k - 1;
  const double h = static_cast<double>(k) - nd;
  std::vector<double> inverse_factorial(m + 1, 1.0), power(m + 1, 1.0);
  for (std::size_t i = 1; i <= m; ++i) {
    inverse_factorial[i] = inverse_factorial[i - 1] / static_cast<double>(i);
    power[i] = power[i - 1] * h;
  }
  scaled_matrix base{m, std::vector<double>(m * m), 0};
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < std::min(m, i + 2); ++j) {
      double x = 1;
      if (j == 0) x -= power[i + 1];
      if (i + 1 == m) x -= power[m - j];
      if (j == 0 && i + 1 == m && h > 0.5) x += std::pow(2 * h - 1, static_cast<double>(m));
      base.entry[i * m + j] = x * inverse_factorial[i + 1 - j];
    }
  scaled_matrix result{m, std::vector<double>(m * m), 0};
  for (std::size_t i = 0; i < m; ++i) result.entry[i * (m + 1)] = 1;
  for (index_t left = n; left > 0; left /= 2) {
    if (left % 2 == 1) result = result.times(base);
    if (left > 1) base = base.times(base);
  }
  double log_p = std::log(result.entry[(k - 1) * (m + 1)]) + result.exponent * std::numbers::ln10;
  for (index_t i = 1; i <= n; ++i) log_p += std::log(static_cast<double>(i) / static_cast<double>(n));
  return std::clamp(std::exp(log_p), 0.0, 1.0);
}

/// Returns P(D_n >= d) by Kolmogorov's series at an argument corrected for n (Vrbik 2018).
inline double kolmogorov_series(index_t n, double d) {
  const double size = static_cast<double>(n), root = std::sqrt(size);
  const double y = root * d, x = y + 1 / (6 * root) + (y - 1) / (4 * size);
  double sum = 0;
  if (x < 1) {  // the equal theta series converges faster for small x
    for (int k = 1; k <= 7; k += 2) sum += std::exp(-k * k * std::numbers::pi * std::numbers::pi / (8 * x * x));
    return 1 - std::sqrt(2 * std::numbers::pi) / x * sum;
  }
  for (int k = 1; k <= 6; ++k) sum += (k % 2 == 1 ? 2 : -2) * std::exp(-2 * k * k * x * x);
  return sum;
}

}  // namespace detail

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

}  // namespace qkgeom
