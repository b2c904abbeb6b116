// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Views a contiguous range without copying.
template <class T, std::size_t Extent>
vector_view<const T> as_view(std::span<T, Extent> s) {
  return {s.data(), static_cast<index_t>(s.size())};
}
template <class T>
vector_view<const T> as_view(const std::vector<T>& v) {
  return {v.data(), static_cast<index_t>(v.size())};
}
template <class T>
void as_view(const std::vector<T>&& temporary) = delete;

/// Views a contiguous range as a row-major matrix of `cols` columns without copying. Throws if the sizes do not fit.
template <class T, std::size_t Extent>
matrix_view<const T> as_matrix(std::span<T, Extent> s, index_t cols) {
  require(cols > 0 && static_cast<index_t>(s.size()) % cols == 0, "as_matrix: ", s.size(), " values are no matrix of ",
          cols, " columns");
  return {s.data(), static_cast<index_t>(s.size()) / cols, cols, cols};
}
template <class T>
matrix_view<const T> as_matrix(const std::vector<T>& v, index_t cols) {
  return as_matrix(std::span<const T>(v), cols);
}
template <class T>
void as_matrix(const std::vector<T>&& temporary, index_t cols) = delete;

}  // namespace qkgeom
