// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>

#include "qkgeom/linalg/products.hpp"

namespace qkgeom::linalg {

QKGEOM_INLINE void row_products(const float* a, index_t n, const float* b, index_t m, index_t d, float* out) {
  using rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<rows>(out, n, m).noalias() = Eigen::Map<const rows>(a, n, d) * Eigen::Map<const rows>(b, m, d).transpose();
}

}  // namespace qkgeom::linalg
