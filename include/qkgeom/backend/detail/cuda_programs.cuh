// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/cuda_team.cuh"
#include "qkgeom/backend/detail/observed_tile.hpp"

/// The programs that a device runs. They take long to compile: with QKGEOM_PRECOMPILED they are compiled once
/// (cmake/precompiled_cuda.cu), but for those over a caller's own weight.
namespace qkgeom::cuda_kernels {

#if defined(QKGEOM_PRECOMPILED)
extern template void launch_program(const tile::observed_tiles&, index_t, cudaStream_t);
extern template void launch_program(const tile::sum_program&, index_t, cudaStream_t);
#endif

}  // namespace qkgeom::cuda_kernels
