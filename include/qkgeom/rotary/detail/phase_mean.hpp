// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <complex>
#include <numbers>

#include "qkgeom/core/config.hpp"

namespace qkgeom::detail {

/// Sums over the n tokens of a stretch that begins at `start`; c is their middle position.
struct phase_sums {
  std::complex<double> mean;   ///< of e^(iwt)
  std::complex<double> slope;  ///< sum of (t - c) e^(iwt)
};

/// Computes the sums with x = w / 2: sum of e^(iw(t - c)) = sin(nx) / sin(x) = D, and sum of (t - c) e^(iw(t - c)) = -i
/// dD/dw. For small nw both are series in w, whose next terms are below 1e-13 of the value.
inline phase_sums sums_of_phases(double w, index_t start, index_t count) {
  w = std::remainder(w, 2 * std::numbers::pi);  // tokens are whole: the same phases
  const auto n = static_cast<double>(count);
  const double centre = static_cast<double>(start) + 0.5 * (n - 1);
  const std::complex<double> rotation = std::polar(1.0, w * centre);
  const double x = 0.5 * w;
  double sum = 0, derivative = 0;  // D and dD/dw
  if (std::abs(n * x) < 0.05) {
    const double m2 = n * (n * n - 1) / 12, m4 = m2 * (3 * n * n - 7) / 20,
                 m6 = m2 * (3 * n * n * n * n - 18 * n * n + 31) / 112, v = 2 * x;
    sum = n - v * v * (m2 / 2 - v * v * (m4 / 24 - v * v * m6 / 720));
    derivative = -v * (m2 - v * v * (m4 / 6 - v * v * m6 / 120));
  } else {
    const double sx = std::sin(x);
    sum = std::sin(n * x) / sx;
    derivative = 0.5 * (n * std::cos(n * x) - sum * std::cos(x)) / sx;
  }
  return {rotation * (sum / n), rotation * std::complex<double>(0, -derivative)};
}

}  // namespace qkgeom::detail
