// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/linalg/symmetric.hpp"

namespace qkgeom::linalg {

using row_major = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

QKGEOM_INLINE eigen_system symmetric_eigen(const std::vector<double>& matrix, index_t d) {
  const Eigen::Map<const row_major> m(matrix.data(), d, d);
  require(m.allFinite(), "symmetric_eigen: the matrix (", d, " x ", d, ") has entries that are not finite");
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver{Eigen::MatrixXd(m)};
  require(solver.info() == Eigen::Success, "symmetric_eigen: no convergence on a ", d, " x ", d, " matrix");
  eigen_system result{std::vector<double>(d), std::vector<double>(d * d)};
  Eigen::Map<Eigen::VectorXd>(result.values.data(), d) = solver.eigenvalues().reverse();
  Eigen::Map<row_major>(result.vectors.data(), d, d) = solver.eigenvectors().rowwise().reverse().transpose();
  return result;
}

QKGEOM_INLINE semidefinite_root semidefinite_factor(const std::vector<double>& matrix, index_t d) {
  const Eigen::Map<const row_major> m(matrix.data(), d, d);
  require(m.allFinite(), "semidefinite_factor: the matrix (", d, " x ", d, ") has entries that are not finite");
  // LLT needs no pivoting and works by blocks; near-singular matrices need pivots.
  semidefinite_root triangle{d, matrix};
  Eigen::Map<row_major> l(triangle.factor.data(), d, d);
  if (const Eigen::LLT<Eigen::Ref<row_major>> llt(l); d > 0 && llt.info() == Eigen::Success) {
    const Eigen::ArrayXd roots = l.diagonal();
    if (roots.minCoeff() >= 1e-3 * roots.maxCoeff()) {
      l.triangularView<Eigen::StrictlyUpper>().setZero();
      return triangle;
    }
  }
  const Eigen::LDLT<Eigen::MatrixXd> ldlt{Eigen::MatrixXd(m)};
  const Eigen::VectorXd pivots = ldlt.vectorD();
  const double tiny =
      static_cast<double>(d) * std::numeric_limits<double>::epsilon() * std::max(0.0, pivots.maxCoeff());
  std::vector<index_t> kept;
  for (index_t i = 0; i < d; ++i)
    if (pivots[i] > tiny) kept.push_back(i);
  const Eigen::MatrixXd lower = ldlt.transpositionsP().transpose() * Eigen::MatrixXd(ldlt.matrixL());
  semidefinite_root root{static_cast<index_t>(kept.size()), std::vector<double>(d * kept.size())};
  Eigen::Map<row_major> f(root.factor.data(), d, root.rank);
  for (index_t c = 0; c < root.rank; ++c) f.col(c) = lower.col(kept[c]) * std::sqrt(pivots[kept[c]]);
  return root;
}

}  // namespace qkgeom::linalg
