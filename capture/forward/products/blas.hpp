// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Computes y (rows, out) = x (rows, in) w^T, w (out, in), all row-major f32 with the given row strides. Runs on the
/// calling thread alone; the bits of the result depend on the shapes and the CPU only.
void multiply_transposed(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* w,
                         index_t w_stride, float* y, index_t y_stride);

/// Computes y (rows, columns) = a (rows, in) b (in, columns), all row-major f32 without gaps.
void multiply(index_t rows, index_t columns, index_t in, const float* a, const float* b, float* y);
/// Adds a^T b to y (rows, columns), a (in, rows), b (in, columns), all row-major f32 without gaps.
void add_product_of_transposed(index_t rows, index_t columns, index_t in, const float* a, const float* b, float* y);

/// Prepares OpenBLAS for calls of `threads` threads at once, each on one thread; call it before the products above. The
/// first product then throws `error` if there is no room for OpenBLAS' buffers, for which OpenBLAS would wait forever.
void prepare_blas(int threads);

/// Sets variables that OpenBLAS reads only while it is loaded, unless the user has set them, and restarts the program
/// if one changes: OPENBLAS_NUM_THREADS=1, since each of OpenBLAS' threads would take a buffer and, where memory is
/// short, wait for it forever, at the program's end too; and OPENBLAS_CORETYPE where OpenBLAS 0.3.21 runs its AVX2
/// kernels on a newer CPU with AVX-512. Call it first in `main`.
void set_blas_environment(char** argv);

}  // namespace qkgeom
