// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/backend/detail/thrust/keys.hpp"

/// Batched products of matrices, and what they read. `multiply(device, batch, rows, columns, d, a, b, c)`: row-major
/// c (rows, columns) = a (rows, d) b (columns, d)' in each matrix of the batch.
namespace qkgeom::thrust_kernels {

/// The matrices of a batch: `step` leads from one to the next.
template <class T>
struct matrix_batch {
  T* data;
  index_t step;
};

/// Products without a library: an item an entry.
template <class F>
struct multiply_entry {
  index_t rows, columns, d;
  matrix_batch<const F> a, b;
  matrix_batch<F> c;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t column = item % columns, row = item / columns % rows, at = item / (rows * columns);
    const F *const x = a.data + at * a.step + row * d, *const y = b.data + at * b.step + column * d;
    F sum = 0;
    for (index_t i = 0; i < d; ++i) sum += x[i] * y[i];
    c.data[at * c.step + row * columns + column] = sum;
  }
};
struct multiply_by_loops {
  template <class Device, class F>
  void operator()(const Device& on, index_t batch, index_t rows, index_t columns, index_t d,
                  const matrix_batch<const F>& a, const matrix_batch<const F>& b, const matrix_batch<F>& c) const {
    on.each(batch * rows * columns, multiply_entry<F>{rows, columns, d, a, b, c});
  }
};

/// A distribution of the problems of a call.
struct distribution_place {
  index_t problem, distribution;
};
inline const score_distribution& distribution_at(const std::vector<pair_problem>& problems,
                                                 const distribution_place& at) {
  return problems[at.problem].distributions[at.distribution];
}

/// The centred keys of one key head at a time, as F.
template <class Device, class T, memory_space S>
class keys_of_head {
 public:
  keys_of_head(const Device& on, const tensor_view<const T, S>& k, const device_keys<Device>& groups,
               backend::key_centre about = backend::key_centre::mean)
      : on_(on), k_(k), groups_(groups), about_(about), y_(on.template make<double>(0)) {}
  const double* operator()(index_t head) {
    if (head != head_) y_ = groups_.centred(on_, k_, head, about_);
    head_ = head;
    return y_.data();
  }

 private:
  const Device& on_;
  tensor_view<const T, S> k_;
  const device_keys<Device>& groups_;
  backend::key_centre about_;
  typename Device::template buffer<double> y_;
  index_t head_ = -1;
};

}  // namespace qkgeom::thrust_kernels
