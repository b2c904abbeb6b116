// SPDX-License-Identifier: MIT
#pragma once

#include <memory_resource>
#include <optional>
#include <vector>

#include "capture/forward/products/tiles.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// Storage of weights: rows of f32, for BLAS or a device; f32 in panels (only where `panels_available()`); bf16 in the
/// order of tile products (half the memory; only where `tiles_available()`, and only for activations that are bf16
/// values); or rows of bf16 for a device, which no product on the CPU reads.
enum class weight_format { f32, f32_panels, bf16_tiles, bf16_rows };

weight_format best_f32_format();

/// Working memory of one thread's products.
struct product_scratch {
  tiles::line_vector<bf16> x;
};

/// The matrix of a linear map, (out, in).
class weight_matrix {
 public:
  /// Makes room for `out` rows of `in` entries. Contents stay only if format, `in` and memory are as before. `memory`
  /// is for `weight_format::bf16_rows` (null: the usual) and must outlive the matrix.
  void reshape(index_t out, index_t in, weight_format format, std::pmr::memory_resource* memory = nullptr);
  /// Returns row `i` of a `weight_format::f32` matrix.
  float* row(index_t i) { return f32_.data() + i * in_; }
  /// Returns row `i` of a `weight_format::bf16_rows` matrix.
  bf16* bf16_row(index_t i) { return rows_->data() + i * in_; }
  /// Sets `count` rows from row `first` on; not for rows of bf16. For tiles, entries must be bf16 values.
  void set(index_t first, index_t count, const float* rows);
  weight_format format() const { return format_; }
  index_t size() const { return out_ * in_; }
  /// Returns the first of size() entries, row after row, of a matrix in rows of f32 or bf16.
  const void* data() const;

  /// Computes y (rows, out) = x (rows, in) w^T with the first `out` rows of w, summed in f32. The bits depend on the
  /// shape alone. Not for `weight_format::bf16_rows`.
  void multiply(index_t rows, index_t out, const float* x, index_t x_stride, float* y, index_t y_stride,
                product_scratch& s) const;

 private:
  index_t out_ = 0, in_ = 0;
  weight_format format_ = weight_format::f32;
  std::vector<float> f32_;
  tiles::line_vector<float> panels_;
  std::optional<std::pmr::vector<bf16>> rows_;
  tiles::line_vector<bf16> tiles_;
};

}  // namespace qkgeom
