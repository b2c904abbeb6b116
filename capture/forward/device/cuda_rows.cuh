// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime.h>

#include "capture/forward/team.hpp"
#include "qkgeom/backend/cuda/resources.cuh"

namespace qkgeom {

/// One thread of a block.
struct cuda_thread {
  static constexpr int count = 256;
  QKGEOM_HD int number() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x);
#else
    return 0;
#endif
  }
  QKGEOM_HD void wait() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  QKGEOM_HD float across(float x, [[maybe_unused]] int step) const {
#if defined(__CUDA_ARCH__)
    return __shfl_xor_sync(0xffffffffu, x, step);
#else
    return x;
#endif
  }
};
using cuda_team = device_kernels::block_team<cuda_thread>;

template <class Kernel>
__global__ void __launch_bounds__(cuda_team::threads) row_kernel(const Kernel kernel) {
  __shared__ float partial[cuda_team::threads / cuda_team::warp];
  kernel(cuda_team({}, partial), static_cast<index_t>(blockIdx.x));
}

/// Launches a row kernel (kernels.hpp): one block for each of `n` rows, in any order.
template <class Kernel>
void launch_rows(index_t n, const Kernel& kernel, cudaStream_t stream) {
  row_kernel<<<static_cast<unsigned>(n), cuda_team::threads, 0, stream>>>(kernel);
  cuda_kernels::check(cudaGetLastError(), "a kernel of the forward pass");
}

}  // namespace qkgeom
