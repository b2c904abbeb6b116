// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include "qkgeom/backend/detail/cpu/simd.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::cpu {

/// Rows of one head, read widened to f64. A function pointer stands for the element type, so that the kernels are
/// compiled once for all types.
struct wide_rows {
  const char* data = nullptr;
  index_t rows = 0, cols = 0;
  index_t row_bytes = 0, width_bytes = 0;  ///< from row to row; of one row's values
  void (*widen_row)(const char*, index_t, double*) = nullptr;
  bool bf16 = false;  ///< whether values are stored so

  void read(index_t row, double* out) const { widen_row(data + row * row_bytes, cols, out); }
  /// Fetches a row into the cache: rows of one head lie too far apart for the hardware's prefetcher.
  void prefetch(index_t row) const {
    for (index_t b = 0; b < width_bytes; b += 64) __builtin_prefetch(data + row * row_bytes + b);
  }
};

/// Heads of a layer, each as `wide_rows`.
struct wide_tensor {
  wide_rows first;
  index_t heads = 0, head_bytes = 0;

  wide_rows head(index_t h) const {
    wide_rows r = first;
    r.data += h * head_bytes;
    return r;
  }
};

template <class T>
wide_tensor widened(const tensor_view<const T>& x) {
  constexpr auto size = static_cast<index_t>(sizeof(T));
  const auto widen_row = [](const char* row, index_t n, double* out) {
    widen(reinterpret_cast<const T*>(row), n, out);
  };
  return {{reinterpret_cast<const char*>(x.data), x.rows, x.dim, x.row_stride * size, x.dim * size, widen_row,
           std::is_same_v<T, qkgeom::bf16>},
          x.heads,
          x.head_stride * size};
}

}  // namespace qkgeom::cpu
