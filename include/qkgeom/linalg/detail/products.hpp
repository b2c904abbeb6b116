// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "qkgeom/linalg/products.hpp"

namespace qkgeom::linalg {

QKGEOM_INLINE std::vector<double> quadratic_rows(const std::vector<double>& m, const std::vector<double>& v,
                                                 std::size_t d) {
  std::vector<double> q(d), y(d);
  for (std::size_t j = 0; j < d; ++j) {
    const double* x = &v[j * d];
    std::fill(y.begin(), y.end(), 0.0);
    std::size_t i = 0;
    for (; i + 4 <= d; i += 4) {  // four rows of m for each read of y
      const double *const row = &m[i * d], x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
      y[i + 1] += x0 * row[i + 1];
      y[i + 2] += x0 * row[i + 2] + x1 * row[d + i + 2];
      y[i + 3] += x0 * row[i + 3] + x1 * row[d + i + 3] + x2 * row[2 * d + i + 3];
      for (std::size_t c = i + 4; c < d; ++c)
        y[c] += x0 * row[c] + x1 * row[d + c] + x2 * row[2 * d + c] + x3 * row[3 * d + c];
    }
    for (; i < d; ++i)
      for (std::size_t c = i + 1; c < d; ++c) y[c] += x[i] * m[i * d + c];
    for (i = 0; i < d; ++i) q[j] += x[i] * (m[i * d + i] * x[i] + 2 * y[i]);
  }
  return q;
}

QKGEOM_INLINE void row_products(const float* a, index_t n, const float* b, index_t m, index_t d, float* out) {
  using rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<rows>(out, n, m).noalias() = Eigen::Map<const rows>(a, n, d) * Eigen::Map<const rows>(b, m, d).transpose();
}

}  // namespace qkgeom::linalg
