// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkgeom/backend/cuda/resources.cuh"
#include "qkgeom/context/context.hpp"

namespace qkgeom::cuda_kernels {

/// Page-locked host memory, and copies to it from the device.
class copy_slot {
 public:
  /// Makes room for n values to copy to the device.
  double* reserve(index_t n) {
    values_.reserve(n);
    return values_.data();
  }
  void start(const device_memory& memory, const double* from, index_t n) {
    values_.reserve(n);
    check(cudaMemcpyAsync(values_.data(), from, n * sizeof(double), cudaMemcpyDeviceToHost, memory.stream()),
          "a copy to the host");
    check(cudaEventRecord(done_.get(), memory.stream()), "cudaEventRecord");
  }
  const double* copied() const {
    check(cudaEventSynchronize(done_.get()), "waiting for a copy");
    return values_.data();
  }

 private:
  static constexpr pinned_memory pinned_{};
  buffer<double, pinned_memory> values_{pinned_, 0};
  owned_event done_ = make_event(cudaEventDisableTiming);
};

/// Returns how many (d, d) matrices one call of cuSOLVER's batched solver takes: it counts bytes in 32 bits, and
/// batches of some ten thousand matrices have been seen to fail.
inline index_t eigen_batch(index_t d) {
  return std::clamp<index_t>(std::numeric_limits<int>::max() / (8 * d * d), 1, 8192);
}

/// See cpu_context::symmetric_eigen. for_each(n, f) runs work on the host; matrices pass through `slot` both ways.
template <class Device, class ForEach>
std::vector<eigen_system> symmetric_eigen(const Device& device, const handles& use, copy_slot& slot, ForEach&& for_each,
                                          const std::vector<const std::vector<double>*>& matrices, index_t d) {
  const auto batch = static_cast<index_t>(matrices.size());
  std::vector<eigen_system> result(matrices.size());
  if (batch == 0 || d == 0) return result;
  double* const packed = slot.reserve(batch * d * d);
  for_each(batch, [&](index_t b) {
    const auto& m = *matrices[b];
    require(std::all_of(m.begin(), m.end(), [](double x) { return std::isfinite(x); }), "symmetric_eigen: the matrix (",
            d, " x ", d, ") has entries that are not finite");
    std::copy(m.begin(), m.end(), packed + b * d * d);
  });
  const auto a = device.template make<double>(batch * d * d);
  device.memory.from_host(a.data(), packed, static_cast<std::size_t>(a.size()) * sizeof(double));
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
  slot.start(device.memory, a.data(), a.size());
  const auto values = w.host();
  for (const int failed : info.host())
    require(failed == 0, "symmetric_eigen: no convergence on a ", d, " x ", d, " matrix");
  // Results are ascending, with eigenvector i in column i of a column-major matrix, which is row i here.
  const double* const vectors = slot.copied();
  for_each(batch, [&](index_t b) {
    auto& to = result[b];
    to.vectors.reserve(d * d);
    for (index_t i = d; i-- > 0;) {
      to.values.push_back(values[b * d + i]);
      const double* const row = vectors + (b * d + i) * d;
      to.vectors.insert(to.vectors.end(), row, row + d);
    }
  });
  return result;
}

/// The launcher of `scatter_by_products`.
struct scatter_launcher {
  const handles* use;
  copy_slot* slots;  ///< (2)
  const device_memory* memory;

  void multiply(index_t batch, index_t width, index_t rows, const double* x, double* products) const {
    const double one = 1, zero = 0;
    const auto n = [](index_t i) { return static_cast<int>(i); };
    check(cublasDgemmStridedBatched(use->blas(), CUBLAS_OP_N, CUBLAS_OP_T, n(width), n(width), n(rows), &one, x,
                                    n(width), rows * width, x, n(width), rows * width, &zero, products, n(width),
                                    width * width, n(batch)),
          "cublasDgemmStridedBatched");
  }
  void start_copy(int slot, const double* from, index_t n) const { slots[slot].start(*memory, from, n); }
  const double* copied(int slot) const { return slots[slot].copied(); }
};

}  // namespace qkgeom::cuda_kernels
