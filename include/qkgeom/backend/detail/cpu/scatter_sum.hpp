// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "qkgeom/backend/detail/cpu/simd_vectors.hpp"

namespace qkgeom::cpu {

/// Upper triangle of the sum of x x' over rows, a block of rows at a time. A block fits into the first-level cache, and
/// sums stay in registers over its rows.
class scatter_sum {
 public:
  /// Begins a sum of rows (d), with the same d in every call.
  void reset(index_t d) {
    if (stride_ != round_up(d, tile_side)) {
      stride_ = round_up(d, tile_side);
      rows_.assign(rows_per_block() * stride_, 0.0);
    }
    upper_.assign(stride_ * stride_, 0.0);
  }

  /// Returns the number of rows of a full block.
  index_t rows_per_block() const { return std::clamp<index_t>(40960 / 8 / stride_ / 8 * 8, 16, 256); }
  /// Returns row i of the next block, for the caller to write (d).
  double* row(index_t i) { return rows_.data() + i * stride_; }

  /// Adds the first `rows` rows of the block.
  void add(index_t rows) {
    for (index_t i = 0; i < stride_; i += tile_side) {
      index_t j = i / lanes<double> * lanes<double>;
      for (; j + 3 * lanes<double> <= stride_; j += 3 * lanes<double>) add_register_tile<3>(rows, i, j);
      for (; j < stride_; j += lanes<double>) add_register_tile<1>(rows, i, j);
    }
  }

  /// Returns row i of the sum; only elements j >= i count.
  double* upper(index_t i) { return upper_.data() + i * stride_; }
  const double* upper(index_t i) const { return upper_.data() + i * stride_; }

 private:
#if defined(__AVX512F__)
  static constexpr index_t tile_side = 8;
#else
  static constexpr index_t tile_side = 4;
#endif
  static_assert(tile_side % lanes<double> == 0, "a row of tiles ends with a vector");

  template <int Vectors>
  void add_register_tile(index_t rows, index_t i, index_t j) {
    vec<double> sum[tile_side][Vectors] = {};
    const double* a = rows_.data() + i;
    const double* b = rows_.data() + j;
    for (index_t r = 0; r < rows; ++r, a += stride_, b += stride_)
#pragma GCC unroll 8
      for (int k = 0; k < tile_side; ++k)
#pragma GCC unroll 3
        for (int v = 0; v < Vectors; ++v) sum[k][v] += load(b + v * lanes<double>) * a[k];
    double* to = upper_.data() + i * stride_ + j;
    for (int k = 0; k < tile_side; ++k, to += stride_)
      for (int v = 0; v < Vectors; ++v) store(to + v * lanes<double>, load(to + v * lanes<double>) + sum[k][v]);
  }

  index_t stride_ = 0;
  aligned_vector<double> upper_, rows_;
};

}  // namespace qkgeom::cpu
