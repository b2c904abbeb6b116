// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "qkgeom/backend/cuda/resources.cuh"
#include "qkgeom/context/eigen_system.hpp"

namespace qkgeom::cuda_kernels {

/// Number of (d, d) matrices that one call of cuSOLVER's batched solver takes: it counts bytes in 32 bits, and batches
/// of some ten thousand matrices have been seen to fail.
inline index_t eigen_batch(index_t d) {
  return std::clamp<index_t>(std::numeric_limits<int>::max() / (8 * d * d), 1, 8192);
}

/// See cpu_context::symmetric_eigen. for_each(n, f) runs the host's work.
template <class Device, class ForEach>
std::vector<eigen_system> symmetric_eigen(const Device& device, const handles& use, ForEach&& for_each,
                                          const std::vector<const std::vector<double>*>& matrices, index_t d) {
  const auto batch = static_cast<index_t>(matrices.size());
  std::vector<eigen_system> result(matrices.size());
  if (batch == 0 || d == 0) return result;
  std::vector<double> packed(batch * d * d);
  for_each(batch, [&](index_t b) {
    const auto& m = *matrices[b];
    require(std::all_of(m.begin(), m.end(), [](double x) { return std::isfinite(x); }), "symmetric_eigen: the matrix (",
            d, " x ", d, ") has entries that are not finite");
    std::copy(m.begin(), m.end(), packed.begin() + b * d * d);
  });
  const auto a = device.copy(packed);
  const auto w = device.template make<double>(batch * d);
  const auto info = device.template make<int>(batch);
  std::size_t on_device = 0, on_host = 0;
  const index_t most = std::min(batch, eigen_batch(d));
  check(cusolverDnXsyevBatched_bufferSize(use.solver(), use.params(), CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER,
                                          d, CUDA_R_64F, a.data(), d, CUDA_R_64F, w.data(), CUDA_R_64F, &on_device,
                                          &on_host, most),
        "cusolverDnXsyevBatched_bufferSize");
  const auto work = device.template make<char>(static_cast<index_t>(on_device));
  std::vector<char> host_work(on_host);
  for (index_t first = 0; first < batch; first += most)
    check(cusolverDnXsyevBatched(use.solver(), use.params(), CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, d,
                                 CUDA_R_64F, a.data() + first * d * d, d, CUDA_R_64F, w.data() + first * d, CUDA_R_64F,
                                 work.data(), on_device, host_work.data(), on_host, info.data() + first,
                                 std::min(most, batch - first)),
          "cusolverDnXsyevBatched");
  const auto values = w.host(), vectors = a.host();
  for (const int failed : info.host())
    require(failed == 0, "symmetric_eigen: no convergence on a ", d, " x ", d, " matrix");
  // Ascending, with eigenvector i in column i of a column-major matrix: row i of what is read here.
  for_each(batch, [&](index_t b) {
    auto& to = result[b];
    for (index_t i = d; i-- > 0;) {
      to.values.push_back(values[b * d + i]);
      const auto row = vectors.begin() + (b * d + i) * d;
      to.vectors.insert(to.vectors.end(), row, row + d);
    }
  });
  return result;
}

/// F = V sqrt(L) for a positive semi-definite matrix V L V'; eigenvalues below d eps times the largest count as 0.
inline semidefinite_root root_of(const eigen_system& s, index_t d) {
  const double tiny = static_cast<double>(d) * std::numeric_limits<double>::epsilon() *
                      std::max(0.0, s.values.empty() ? 0.0 : s.values.front());
  semidefinite_root root;
  while (root.rank < d && s.values[root.rank] > tiny) ++root.rank;
  root.factor.resize(d * root.rank);
  for (index_t c = 0; c < root.rank; ++c)
    for (index_t i = 0; i < d; ++i) root.factor[i * root.rank + c] = std::sqrt(s.values[c]) * s.vectors[c * d + i];
  return root;
}

/// The launcher of `scatter_by_products`.
struct scatter_launcher {
  const handles* use;
  buffer<double, pinned_memory>* staging;

  void multiply(index_t batch, index_t width, index_t rows, const double* x, double* products) const {
    const double one = 1, zero = 0;
    const auto n = [](index_t i) { return static_cast<int>(i); };
    check(cublasDgemmStridedBatched(use->blas(), CUBLAS_OP_N, CUBLAS_OP_T, n(width), n(width), n(rows), &one, x,
                                    n(width), rows * width, x, n(width), rows * width, &zero, products, n(width),
                                    width * width, n(batch)),
          "cublasDgemmStridedBatched");
  }
  double* on_host(index_t n) const {
    staging->reserve(n);
    return staging->data();
  }
};

}  // namespace qkgeom::cuda_kernels
