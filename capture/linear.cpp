// SPDX-License-Identifier: MIT
#include "capture/linear.hpp"

#include <algorithm>

#include "capture/attention_rows.hpp"
#include "capture/blas.hpp"
#include "capture/linear_amx.hpp"

namespace qkgeom {

void weight_matrix::reshape(index_t out, index_t in, weight_format format) {
  const bool packed = format == weight_format::bf16_tiles;
  if (format != format_ || in != in_) {
    f32_.clear();
    tiles_.clear();  // padding is zero
  }
  format_ = format;
  in_ = in;
  const auto size = static_cast<std::size_t>(packed ? tiles_size(out, in) : out * in);
  if (packed && tiles_.size() < size) tiles_.resize(size);
  if (!packed && f32_.size() < size) f32_.resize(size);
}

void weight_matrix::pack(index_t first, index_t count, const float* rows) {
  for (index_t r = 0; r < count; ++r) pack_row(first + r, in_, rows + r * in_, tiles_.data());
}

void weight_matrix::multiply(index_t rows, index_t out, const float* x, index_t x_stride, float* y, index_t y_stride,
                             product_scratch& s) const {
  if (format_ == weight_format::bf16_tiles)
    multiply_tiles(rows, out, in_, x, x_stride, tiles_.data(), y, y_stride, s.x);
  else
    multiply_transposed(rows, out, in_, x, x_stride, f32_.data(), y, y_stride);
}

}  // namespace qkgeom
