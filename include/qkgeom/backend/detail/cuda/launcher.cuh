// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include "qkgeom/backend/cuda/resources.cuh"
#include "qkgeom/backend/detail/cuda/programs.cuh"
#include "qkgeom/backend/detail/launch/launch.hpp"

namespace qkgeom::cuda_kernels {

/// Batches of products of row-major matrices by cuBLAS, in f32 or f64; see launch/launch.hpp.
struct multiply_by_gemm {
  const handles* use;

  template <class Device, class F>
  void operator()(const Device&, index_t batch, index_t rows, index_t columns, index_t d,
                  const thrust_kernels::matrix_batch<const F>& a, const thrust_kernels::matrix_batch<const F>& b,
                  const thrust_kernels::matrix_batch<F>& c) const {
    if (batch == 0 || rows == 0 || columns == 0) return;
    const F one = 1, zero = 0;
    const auto in = [](index_t x) { return static_cast<int>(x); };
    const auto gemm = [&](const auto& function) {
      return function(use->blas(), CUBLAS_OP_T, CUBLAS_OP_N, in(columns), in(rows), in(d), &one, b.data, in(d), b.step,
                      a.data, in(d), a.step, &zero, c.data, in(columns), c.step, in(batch));
    };
    if constexpr (std::is_same_v<F, double>)
      check(gemm(cublasDgemmStridedBatched), "cublasDgemmStridedBatched");
    else
      check(gemm(cublasSgemmStridedBatched), "cublasSgemmStridedBatched");
  }
};

/// How programs are launched and matrices multiplied on a stream.
template <class Device>
class launcher {
 public:
  launcher(const Device& on, const handles& use) : on_(on), multiply_{&use} {}
  const Device& device() const { return on_; }

  template <class Program>
  void launch(const Program& program, index_t blocks) const {
    launch_program(program, blocks, on_.memory.stream());
  }
  template <class... Arguments>
  void multiply(const Arguments&... arguments) const {
    multiply_(on_, arguments...);
  }

 private:
  const Device& on_;
  multiply_by_gemm multiply_;
};

}  // namespace qkgeom::cuda_kernels
