// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/linalg/dense.hpp"

namespace qkgeom {

/// Returns the unit vector u (d) of the reflection H = I - 2uu' that maps `direction` (d) to e_1 (4.10); empty, H = I,
/// if direction is 0 or along e_1. The first entry of direction / |direction| - e_1 is formed without cancellation.
inline std::vector<double> householder_reflector(const std::vector<double>& direction) {
  const double length = dense::norm(direction);
  if (!(length > 0)) return {};
  auto u = direction;
  for (double& x : u) x /= length;  // 1 / length overflows for the smallest drifts
  double rest = 0;
  for (std::size_t i = 1; i < u.size(); ++i) rest += u[i] * u[i];
  u[0] = u[0] > 0 ? -rest / (1.0 + u[0]) : u[0] - 1.0;
  const double norm = dense::norm(u);
  if (!(norm > 0)) return {};
  return dense::scaled(std::move(u), 1.0 / norm);
}

/// Returns H x.
inline std::vector<double> reflect(const std::vector<double>& u, std::vector<double> x) {
  if (u.empty()) return x;
  const double along = 2 * dense::dot(u, x);
  return dense::sum(std::move(x), u, -along);
}

/// Returns H M H for a symmetric M (d, d).
inline std::vector<double> reflect_both(const std::vector<double>& u, std::vector<double> m) {
  if (u.empty()) return m;
  const auto mu = dense::multiply(m, u);
  const double umu = dense::dot(u, mu);
  dense::add_symmetric_product(m, u, dense::sum(mu, u, -umu), -2.0);
  return m;
}

/// Returns the diagonal of H M H for a symmetric M (d, d).
inline std::vector<double> reflected_diagonal(const std::vector<double>& u, const std::vector<double>& m,
                                              std::size_t d) {
  std::vector<double> x(d);
  for (std::size_t i = 0; i < d; ++i) x[i] = m[i * d + i];
  if (u.empty()) return x;
  const auto mu = dense::multiply(m, u);
  const double umu = dense::dot(u, mu);
  for (std::size_t i = 0; i < d; ++i) x[i] -= 4 * u[i] * (mu[i] - umu * u[i]);
  return x;
}

}  // namespace qkgeom
