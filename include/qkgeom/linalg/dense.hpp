// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "qkgeom/core/config.hpp"

/// Small vector and matrix loops in f64. Matrices are (d, d), row-major.
namespace qkgeom::dense {

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double s = 0;
  for (std::size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
  return s;
}
/// Returns the Euclidean norm without under- or overflow.
inline double norm(const std::vector<double>& a) {
  double largest = 0, s = 0;
  for (const double x : a) largest = std::max(largest, std::abs(x));
  if (!(largest > 0) || !std::isfinite(largest)) return largest;
  for (const double x : a) s += (x / largest) * (x / largest);
  return largest * std::sqrt(s);
}

inline std::vector<double> scaled(std::vector<double> a, double factor) {
  for (double& x : a) x *= factor;
  return a;
}
/// Returns a + factor b; a and b have equal sizes.
inline std::vector<double> sum(std::vector<double> a, const std::vector<double>& b, double factor = 1.0) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}
inline std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  return sum(a, b, -1.0);
}

inline double trace(const std::vector<double>& m, std::size_t d) {
  double s = 0;
  for (std::size_t i = 0; i < d; ++i) s += m[i * d + i];
  return s;
}

/// Returns m x for a symmetric m.
inline std::vector<double> multiply(const std::vector<double>& m, const std::vector<double>& x) {
  const std::size_t d = x.size();
  std::vector<double> y(d);
  for (std::size_t i = 0; i < d; ++i) {
    const double xi = x[i];
    const double* row = &m[i * d];
    for (std::size_t j = 0; j < d; ++j) y[j] += xi * row[j];
  }
  return y;
}

inline double quadratic(const std::vector<double>& m, const std::vector<double>& x) { return dot(multiply(m, x), x); }

/// Adds factor (x y' + y x') to m.
inline void add_symmetric_product(std::vector<double>& m, const std::vector<double>& x, const std::vector<double>& y,
                                  double factor) {
  const std::size_t d = x.size();
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < d; ++j) m[i * d + j] += factor * (x[i] * y[j] + y[i] * x[j]);
}

}  // namespace qkgeom::dense
