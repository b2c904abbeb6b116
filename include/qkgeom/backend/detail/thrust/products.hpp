// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/backend/detail/thrust/keys.hpp"

/// Batched matrix products, and the keys that they read.
namespace qkgeom::thrust_kernels {

/// The matrices of a batch, `step` elements apart.
template <class T>
struct matrix_batch {
  T* data;
  index_t step;
};

/// Row-major products c (rows, columns) = a (rows, depth) b (columns, depth)', one for each matrix of a batch, which a
/// `multiply(device, products)` computes.
template <class F>
struct matrix_products {
  index_t batch = 1, rows = 0, columns = 0, depth = 0;
  matrix_batch<const F> a, b;
  matrix_batch<F> c;

  /// Computes entry number `item` of all without a library.
  QKGEOM_HD void operator()(index_t item) const {
    const index_t column = item % columns, row = item / columns % rows, at = item / (rows * columns);
    const F *const x = a.data + at * a.step + row * depth, *const y = b.data + at * b.step + column * depth;
    F sum = 0;
    for (index_t i = 0; i < depth; ++i) sum += x[i] * y[i];
    c.data[at * c.step + row * columns + column] = sum;
  }
};
struct multiply_by_loops {
  template <class Device, class F>
  void operator()(const Device& device, const matrix_products<F>& products) const {
    device.each(products.batch * products.rows * products.columns, products);
  }
};

/// A query bucket of a problem of the call.
struct bucket_place {
  index_t problem, bucket;
};
inline const score_distribution& scores_at(const std::vector<pair_problem>& problems, const bucket_place& place) {
  return problems[place.problem].distributions[place.bucket];
}

/// Centred keys (heads, n, d) of some key heads at a time; keeps the last ones.
template <class Device, class T, memory_space S>
class keys_of_heads {
 public:
  keys_of_heads(const Device& device, const tensor_view<const T, S>& k, const device_keys<Device>& groups,
                backend::key_centre about = backend::key_centre::mean)
      : device_(device), k_(k), groups_(groups), about_(about), y_(device.template make<double>(0)) {}
  /// Returns the keys of key heads [first, first + heads).
  const double* operator()(index_t first, index_t heads = 1) {
    if (first != first_ || heads != heads_) y_ = groups_.centred(device_, k_, first, heads, about_);
    first_ = first, heads_ = heads;
    return y_.data();
  }

 private:
  const Device& device_;
  tensor_view<const T, S> k_;
  const device_keys<Device>& groups_;
  backend::key_centre about_;
  typename Device::template buffer<double> y_;
  index_t first_ = 0, heads_ = 0;
};

}  // namespace qkgeom::thrust_kernels
