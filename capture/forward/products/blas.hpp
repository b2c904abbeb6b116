// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// y (rows, out) = x (rows, in) w^T, w (out, in), all row-major f32 with the given row strides. Runs on the calling
/// thread alone; the bits of the result depend on the shapes and the CPU only.
void multiply_transposed(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* w,
                         float* y, index_t y_stride);

/// OpenBLAS must not share our loops out again; to be called before `multiply_transposed`.
void use_one_blas_thread();

/// OpenBLAS 0.3.21 runs its AVX2 kernels on CPUs newer than itself, although they have AVX-512. When it does so here,
/// the program is started again with OPENBLAS_CORETYPE set, which OpenBLAS reads only while it is loaded. To be called
/// first in `main`; returns if nothing is to be gained.
void choose_blas_kernels(char** argv);

}  // namespace qkgeom
