// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Returns the pairwise plasticity 4 Phi(z) Phi(-z) at z = m / sqrt(v) (section 4.4.1), computed as e (2 - e) with e =
/// erfc(|z| / sqrt 2), which neither cancels nor becomes negative for large z. If v = 0: 1 for m = 0, else 0.
QKGEOM_HD inline double pair_plasticity(double m, double v) {
  if (!(v > 0)) return m == 0 ? 1.0 : 0.0;
  const double e = std::erfc(std::fabs(m) / std::sqrt(2.0 * v));
  return e * (2.0 - e);
}

/// Returns P(q . k_i > q . k_j) = Phi(m / sqrt(v)), m and v being mean and variance of q . (k_i - k_j); ties count 1/2.
QKGEOM_HD inline double win_probability(double m, double v) {
  if (!(v > 0)) return m == 0 ? 0.5 : (m > 0 ? 1.0 : 0.0);
  return 0.5 * std::erfc(-m / std::sqrt(2.0 * v));
}

}  // namespace qkgeom
