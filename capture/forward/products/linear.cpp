// SPDX-License-Identifier: MIT
#include "capture/forward/products/linear.hpp"

#include <algorithm>

#include "capture/forward/products/blas.hpp"
#include "capture/forward/products/linear_panels.hpp"
#include "capture/forward/products/linear_tiles.hpp"

namespace qkgeom {

weight_format best_f32_format() { return panels_available() ? weight_format::f32_panels : weight_format::f32; }

void weight_matrix::reshape(index_t out, index_t in, weight_format format, std::pmr::memory_resource* memory) {
  if (format != format_ || in != in_) {
    f32_.clear();
    panels_.clear();
    rows_.reset();
    tiles_.clear();  // padding is zero
  }
  format_ = format;
  out_ = out, in_ = in;
  const auto grow = [](auto& to, index_t size) {
    if (to.size() < static_cast<std::size_t>(size)) to.resize(size);
  };
  switch (format) {
    case weight_format::f32:
      return grow(f32_, out * in);
    case weight_format::f32_panels:
      return grow(panels_, panels_size(out, in));
    case weight_format::bf16_rows:
      if (!memory) memory = std::pmr::new_delete_resource();
      if (!rows_ || rows_->get_allocator().resource() != memory) rows_.emplace(memory);
      return grow(*rows_, out * in);
    case weight_format::bf16_tiles:
      return grow(tiles_, tiles_size(out, in));
  }
}

void weight_matrix::set(index_t first, index_t count, const float* rows) {
  if (format_ == weight_format::f32)
    std::copy_n(rows, count * in_, row(first));
  else if (format_ == weight_format::f32_panels)
    pack_rows(first, count, in_, rows, in_, panels_.data());
  else
    for (index_t r = 0; r < count; ++r) pack_row(first + r, in_, rows + r * in_, tiles_.data());
}

const void* weight_matrix::data() const {
  if (format_ == weight_format::bf16_rows) return rows_->data();
  return f32_.data();
}

void weight_matrix::multiply(index_t rows, index_t out, const float* x, index_t x_stride, float* y, index_t y_stride,
                             product_scratch& s) const {
  if (format_ == weight_format::bf16_tiles)
    multiply_tiles(best_tile_unit(), rows, out, in_, x, x_stride, tiles_.data(), y, y_stride, s.x);
  else if (format_ == weight_format::f32_panels)
    multiply_panels(rows, out, in_, x, x_stride, panels_.data(), y, y_stride);
  else
    multiply_transposed(rows, out, in_, x, x_stride, f32_.data(), in_, y, y_stride);
}

}  // namespace qkgeom
