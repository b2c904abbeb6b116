// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Views a row-major Eigen matrix, map or block without copying. Column-major matrices and expressions do not compile.
/// Throws if the entries of a row are not contiguous.
template <class Derived>
matrix_view<const typename Derived::Scalar> as_view(const Eigen::MatrixBase<Derived>& m) requires(
    !bool(Derived::IsVectorAtCompileTime)) {
  static_assert(Derived::IsRowMajor, "qkgeom reads row-major matrices: give Eigen::Matrix<..., Eigen::RowMajor>");
  static_assert((Derived::Flags & Eigen::DirectAccessBit) != 0,
                "qkgeom views memory: give a matrix, map or block, not an expression");
  require(m.derived().innerStride() == 1, "as_view: the entries of a row lie ", m.derived().innerStride(),
          " apart instead of 1");
  return {m.derived().data(), m.rows(), m.cols(), m.derived().outerStride()};
}

/// Views a contiguous Eigen vector without copying.
template <class Derived>
vector_view<const typename Derived::Scalar> as_view(const Eigen::MatrixBase<Derived>& v) requires(
    bool(Derived::IsVectorAtCompileTime)) {
  static_assert((Derived::Flags & Eigen::DirectAccessBit) != 0 && Derived::InnerStrideAtCompileTime == 1,
                "qkgeom views memory: give a contiguous vector");
  return {v.derived().data(), v.size()};
}

/// Refuses a temporary, which its view would outlive.
template <class Derived>
void as_view(const Eigen::PlainObjectBase<Derived>&& temporary) = delete;

/// Maps a result vector, or a row-major result of `cols` columns, without copying. Throws if the sizes do not fit.
inline Eigen::Map<const Eigen::VectorXd> as_eigen(const std::vector<double>& v) {
  return {v.data(), static_cast<Eigen::Index>(v.size())};
}
inline Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> as_eigen(
    const std::vector<double>& m, index_t cols) {
  require(cols > 0 && static_cast<index_t>(m.size()) % cols == 0, "as_eigen: ", m.size(), " values are no matrix of ",
          cols, " columns");
  return {m.data(), static_cast<Eigen::Index>(m.size()) / cols, cols};
}
void as_eigen(const std::vector<double>&& temporary) = delete;
void as_eigen(const std::vector<double>&& temporary, index_t cols) = delete;

}  // namespace qkgeom
