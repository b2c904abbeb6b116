// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include "qkgeom/backend/cuda/resources.cuh"
#include "qkgeom/backend/detail/cuda/team.cuh"
#include "qkgeom/backend/detail/launch/launch.hpp"

namespace qkgeom::cuda_kernels {

/// Runs `matrix_products` by cuBLAS, in f32 or f64.
struct multiply_by_gemm {
  const handles* use;

  template <class Device, class F>
  void operator()(const Device&, const thrust_kernels::matrix_products<F>& p) const {
    if (p.batch == 0 || p.rows == 0 || p.columns == 0) return;
    const F one = 1, zero = 0;
    const auto as_int = [](index_t x) { return static_cast<int>(x); };
    const int rows = as_int(p.rows), columns = as_int(p.columns), depth = as_int(p.depth);
    const auto gemm = [&](const auto& function) {
      return function(use->blas(), CUBLAS_OP_T, CUBLAS_OP_N, columns, rows, depth, &one, p.b.data, depth, p.b.step,
                      p.a.data, depth, p.a.step, &zero, p.c.data, columns, p.c.step, as_int(p.batch));
    };
    if constexpr (std::is_same_v<F, double>)
      check(gemm(cublasDgemmStridedBatched), "cublasDgemmStridedBatched");
    else
      check(gemm(cublasSgemmStridedBatched), "cublasSgemmStridedBatched");
  }
};

template <class Device>
class launcher {
 public:
  launcher(const Device& device, const handles& use) : device_(device), multiply_{&use} {}
  const Device& device() const { return device_; }

  template <class Program>
  void launch(const Program& program, index_t blocks) const {
    launch_program(program, blocks, device_.memory.stream());
  }
  template <class F>
  void multiply(const thrust_kernels::matrix_products<F>& products) const {
    multiply_(device_, products);
  }

 private:
  const Device& device_;
  multiply_by_gemm multiply_;
};

}  // namespace qkgeom::cuda_kernels
