// SPDX-License-Identifier: MIT
#pragma once

#include <memory_resource>
#include <optional>
#include <vector>

#include "capture/forward/products/tiles.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// How weights are kept: as rows of f32, for BLAS or a device; as f32 in panels (only where `panels_available()`); as
/// bf16 in the order in which tile products read them (half the memory; only where `tiles_available()`, and only for
/// activations that are bf16 values); or as rows of bf16, which go to a device and which no product on the CPU reads.
enum class weight_format { f32, f32_panels, bf16_tiles, bf16_rows };

/// The fastest order of f32 weights that the CPU can multiply.
weight_format best_f32_format();

/// Working memory of one thread's products.
struct product_scratch {
  tiles::line_vector<bf16> x;
};

/// The matrix of a linear map, (out, in).
class weight_matrix {
 public:
  /// Makes room for `out` rows of `in` entries. What was in it stays only if format, `in` and memory are as before.
  /// `memory` is that of `weight_format::bf16_rows`; none: the usual. It must live longer.
  void reshape(index_t out, index_t in, weight_format format, std::pmr::memory_resource* memory = nullptr);
  /// Where the f32 row `i` lies. Only for `weight_format::f32`.
  float* row(index_t i) { return f32_.data() + i * in_; }
  /// The same for `weight_format::bf16_rows`.
  bf16* bf16_row(index_t i) { return rows_->data() + i * in_; }
  /// Sets `count` rows from row `first` on. Not for rows of bf16; for tiles, entries must be bf16 values.
  void set(index_t first, index_t count, const float* rows);
  weight_format format() const { return format_; }
  index_t size() const { return out_ * in_; }
  /// The first of size() entries, row after row: bf16 or float. For rows of f32 and of bf16 alone.
  const void* data() const;

  /// y (rows, out) = x (rows, in) w^T with the first `out` rows of w. Sums in f32. The bits depend on the shape alone.
  /// Not for `weight_format::bf16_rows`.
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
