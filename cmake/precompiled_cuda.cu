// SPDX-License-Identifier: MIT
// The pair kernels, compiled once for the CUDA programs and tests of this project (see core/config.hpp).
#include "qkgeom/backend/detail/cuda_programs.cuh"
#include "qkgeom/backend/detail/cuda_tile_kernel.cuh"

namespace qkgeom::cuda_kernels {

template void launch_program(const tile::observed_tiles&, index_t, cudaStream_t);
template void launch_program(const tile::sum_program&, index_t, cudaStream_t);

}  // namespace qkgeom::cuda_kernels
