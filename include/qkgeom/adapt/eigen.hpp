// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <vector>

#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Zero-copy view of a row-major Eigen matrix, map or block. A column-major one is refused at compile time; so is an
/// expression, which has no memory to view.
template <class Derived>
matrix_view<const typename Derived::Scalar> as_view(const Eigen::MatrixBase<Derived>& m) requires(
    !bool(Derived::IsVectorAtCompileTime)) {
  static_assert(Derived::IsRowMajor, "qkgeom reads row-major matrices: give Eigen::Matrix<..., Eigen::RowMajor>");
  static_assert((Derived::Flags & Eigen::DirectAccessBit) != 0,
                "qkgeom views memory: give a matrix, map or block, not an expression");
  return {m.derived().data(), m.rows(), m.cols(), m.derived().outerStride()};
}

/// Zero-copy view of a contiguous Eigen vector.
template <class Derived>
vector_view<const typename Derived::Scalar> as_view(const Eigen::MatrixBase<Derived>& v) requires(
    bool(Derived::IsVectorAtCompileTime)) {
  static_assert((Derived::Flags & Eigen::DirectAccessBit) != 0 && Derived::InnerStrideAtCompileTime == 1,
                "qkgeom views memory: give a contiguous vector");
  return {v.derived().data(), v.size()};
}

/// Results as Eigen maps, without a copy.
inline Eigen::Map<const Eigen::VectorXd> as_eigen(const std::vector<double>& v) {
  return {v.data(), static_cast<Eigen::Index>(v.size())};
}
inline Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> as_eigen(
    const std::vector<double>& m, index_t cols) {
  return {m.data(), static_cast<Eigen::Index>(m.size()) / cols, cols};
}

}  // namespace qkgeom
