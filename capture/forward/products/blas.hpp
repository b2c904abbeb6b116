// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// y (rows, out) = x (rows, in) w^T, w (out, in), all row-major f32 with the given row strides. Runs on the calling
/// thread alone; the bits of the result depend on the shapes and the CPU only.
void multiply_transposed(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* w,
                         index_t w_stride, float* y, index_t y_stride);

/// y (rows, columns) = a (rows, in) b (in, columns), all row-major f32 without gaps.
void multiply(index_t rows, index_t columns, index_t in, const float* a, const float* b, float* y);
/// y (rows, columns) += a^T b, a (in, rows), b (in, columns), all row-major f32 without gaps.
void add_product_of_transposed(index_t rows, index_t columns, index_t in, const float* a, const float* b, float* y);

/// OpenBLAS must not share our loops out again, and `threads` threads will call it at once; to be called before
/// the products above. The first product then throws `error` if there is no room for OpenBLAS' buffers, for which it
/// would wait for ever.
void prepare_blas(int threads);

/// Starts the program again with variables that OpenBLAS reads only while it is loaded, unless they are set:
/// OPENBLAS_NUM_THREADS=1, since threads of its own would each take a buffer and, where memory is short, wait for it
/// for ever, at the program's end too; and OPENBLAS_CORETYPE where OpenBLAS 0.3.21 runs its AVX2 kernels on a CPU newer
/// than itself that has AVX-512. To be called first in `main`; returns if nothing is to be changed.
void set_blas_environment(char** argv);

}  // namespace qkgeom
