// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Eigenvalues, descending (d), and eigenvectors as rows (d, d) of a symmetric matrix.
struct eigen_system {
  std::vector<double> values;
  std::vector<double> vectors;
};

/// Factor F (d, rank), row-major, of a positive semi-definite matrix F F'.
struct semidefinite_root {
  index_t rank = 0;
  std::vector<double> factor;
};

}  // namespace qkgeom
