// SPDX-License-Identifier: MIT
// The pair kernel, compiled once for the CUDA programs and tests of this project (see core/config.hpp).
#include "qkgeom/backend/detail/cuda_tile_kernel.cuh"
