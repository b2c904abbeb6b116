// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "qkgeom/backend/detail/cpu/simd_vectors.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::cpu {

/// Stores n values as bf16; returns false if one is not exactly a bf16.
template <class T>
bool narrow(const T* from, index_t n, std::uint16_t* to) {
  if constexpr (std::is_same_v<T, bf16>) {
    std::memcpy(to, from, n * sizeof(T));
    return true;
  }
  std::uint32_t rest = 0;
  index_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    word_lanes low{};
    for (; i + lanes<float> <= n; i += lanes<float>) {
      const auto bits = (word_lanes)load(from + i);
      low |= bits << 16;
      const half_lanes high = __builtin_convertvector(bits >> 16, half_lanes);
      std::memcpy(to + i, &high, sizeof high);
    }
    for (int l = 0; l < lanes<float>; ++l) rest |= low[l];
  }
  for (; i < n; ++i) {
    const auto x = static_cast<float>(from[i]);
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if constexpr (std::is_same_v<T, double>) rest |= static_cast<double>(x) == from[i] ? 0u : 1u;
    rest |= bits & 0xffff;
    to[i] = static_cast<std::uint16_t>(bits >> 16);
  }
  return rest == 0;
}

/// Rows of one head, widened to f64 when read. The element type is a value, so kernels are compiled once for all types.
struct wide_rows {
  const char* data = nullptr;
  dtype type = dtype::f32;
  index_t rows = 0, cols = 0;
  index_t row_bytes = 0, width_bytes = 0;  ///< from row to row; of one row's values

  void read(index_t row, double* out) const {
    visit_element_type(type, [&]<class T> { widen(at<T>(row), cols, out); });
  }
  /// Writes a row as bf16; returns false if a value is not exactly a bf16.
  bool read_bf16(index_t row, std::uint16_t* out) const {
    return visit_element_type(type, [&]<class T> { return narrow(at<T>(row), cols, out); });
  }
  /// Fetches a row into the cache: rows of one head lie too far apart for the hardware's prefetcher.
  void prefetch(index_t row) const {
    for (index_t b = 0; b < width_bytes; b += 64) __builtin_prefetch(data + row * row_bytes + b);
  }

 private:
  template <class T>
  const T* at(index_t row) const {
    return reinterpret_cast<const T*>(data + row * row_bytes);
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
  return {{reinterpret_cast<const char*>(x.data), dtype_of<T>(), x.rows, x.dim, x.row_stride * size, x.dim * size},
          x.heads,
          x.head_stride * size};
}

}  // namespace qkgeom::cpu
