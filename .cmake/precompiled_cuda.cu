// SPDX-License-Identifier: MIT
// cuda_context, compiled once for the CUDA programs and tests of this project.
#include "qkgeom/backend/cuda_context.cuh"

namespace qkgeom {

QKGEOM_CUDA_MEMBERS(, float)
QKGEOM_CUDA_MEMBERS(, double)
QKGEOM_CUDA_MEMBERS(, bf16)
QKGEOM_CUDA_MEMBERS(, f16)

}  // namespace qkgeom
