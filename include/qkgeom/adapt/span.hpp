// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Zero-copy view of a contiguous range.
template <class T>
vector_view<const T> as_view(std::span<const T> s) {
  return {s.data(), static_cast<index_t>(s.size())};
}
template <class T>
vector_view<const T> as_view(const std::vector<T>& v) {
  return {v.data(), static_cast<index_t>(v.size())};
}

/// Zero-copy view of a contiguous range as a row-major matrix of `cols` columns. Throws if the sizes do not fit.
template <class T>
matrix_view<const T> as_matrix(std::span<const T> s, index_t cols) {
  require(cols > 0 && static_cast<index_t>(s.size()) % cols == 0, "a range of ", s.size(), " values is no matrix of ",
          cols, " columns");
  return {s.data(), static_cast<index_t>(s.size()) / cols, cols, cols};
}
template <class T>
matrix_view<const T> as_matrix(const std::vector<T>& v, index_t cols) {
  return as_matrix(std::span<const T>(v), cols);
}

}  // namespace qkgeom
