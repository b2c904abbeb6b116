// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// The memory that a view points to. Views of different spaces are different types and do not convert.
enum class memory_space { host, device };

/// Contiguous vector (size). Owns nothing.
template <class T, memory_space Space = memory_space::host>
struct vector_view {
  T* data = nullptr;
  index_t size = 0;

  QKGEOM_HD T& operator[](index_t i) const { return data[i]; }
  QKGEOM_HD T* begin() const { return data; }
  QKGEOM_HD T* end() const { return data + size; }
  operator vector_view<const T, Space>() const requires(!std::is_const_v<T>) { return {data, size}; }
};
template <class T>
vector_view(T*, index_t) -> vector_view<T>;

/// Row-major matrix (rows, cols); row i starts at `data + i * row_stride`. Owns nothing.
template <class T, memory_space Space = memory_space::host>
struct matrix_view {
  T* data = nullptr;
  index_t rows = 0;
  index_t cols = 0;
  index_t row_stride = 0;

  QKGEOM_HD T& operator()(index_t i, index_t j) const { return data[i * row_stride + j]; }
  QKGEOM_HD T* row(index_t i) const { return data + i * row_stride; }
  operator matrix_view<const T, Space>() const requires(!std::is_const_v<T>) { return {data, rows, cols, row_stride}; }
};
template <class T>
matrix_view(T*, index_t, index_t, index_t) -> matrix_view<T>;

/// Rows of several heads at the same positions, (rows, heads, dim): head h of row i starts at
/// `data + i * row_stride + h * head_stride`. Owns nothing.
template <class T, memory_space Space = memory_space::host>
struct tensor_view {
  T* data = nullptr;
  index_t rows = 0;
  index_t heads = 0;
  index_t dim = 0;
  index_t row_stride = 0;
  index_t head_stride = 0;

  QKGEOM_HD matrix_view<T, Space> head(index_t h) const { return {data + h * head_stride, rows, dim, row_stride}; }
  operator tensor_view<const T, Space>() const requires(!std::is_const_v<T>) {
    return {data, rows, heads, dim, row_stride, head_stride};
  }
};
template <class T>
tensor_view(T*, index_t, index_t, index_t, index_t, index_t) -> tensor_view<T>;

/// Views a packed (rows, heads, dim) tensor.
template <class T>
tensor_view<T> packed_tensor(T* data, index_t rows, index_t heads, index_t dim) {
  return {data, rows, heads, dim, heads * dim, dim};
}

}  // namespace qkgeom
