// SPDX-License-Identifier: MIT
#pragma once

#include "capture/forward/products/linear.hpp"
#include "capture/forward/products/product.hpp"
#include "qkgeom/core/buffer.hpp"

namespace qkgeom {

/// Shape of a linear map (out, in) of rows of activations; rows of x are `x_row` entries apart.
struct map_shape {
  index_t rows, out, in, x_row;
};

/// Computes y (rows, out) = x (rows, in) w^T, rounded to Out. cpu_device.hpp overloads it for a `weight_matrix`, which
/// needs the scratch memory.
template <class Device, class T, class Out>
void multiply_map(Device& m, const buffer<T, typename Device::memory_type>& w, const map_shape& s, const T* x, Out* y,
                  product_scratch&) {
  m.multiply(product_shape{s.rows, s.out, s.in, {s.x_row, 0}, {s.in, 0}, {s.out, 0}}, x,
             static_cast<const T*>(w.data()), y);
}

/// Base of a device on which the chunks of a document follow one another: all of a `decoder`'s work on it shares
/// working memory.
struct serial_device {
  static constexpr bool whole_documents = false;
  static constexpr index_t vocabulary_piece = 8192;  ///< words whose logits are computed together
  int workers() const { return 1; }
  template <class F>
  void each(index_t n, const F& f) const {
    for (index_t i = 0; i < n; ++i) f(i, 0);
  }
};

}  // namespace qkgeom
