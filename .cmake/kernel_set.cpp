// SPDX-License-Identifier: MIT
// Kernels of the CPU for one instruction set (qkgeom_kernel_sets.cmake), given by the function QKGEOM_KERNEL_SET.
#include "qkgeom/backend/detail/cpu/primitive_bodies.hpp"
#include "qkgeom/linalg/detail/products.hpp"
#include "qkgeom/linalg/detail/scores.hpp"
#include "qkgeom/linalg/detail/symmetric.hpp"

extern "C" const qkgeom::cpu::kernel_set* QKGEOM_KERNEL_SET() { return &qkgeom::cpu::kernels_here(); }
