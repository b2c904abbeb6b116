// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// A matrix w (out, in) for products in f32 by AVX-512: panels of 48 rows, each (in, 48). BLAS would bring w into
/// such an order at each product; here that is done once, when the weights are read.
index_t panels_size(index_t out, index_t in);

/// Whether the CPU has AVX-512. Asks once.
bool panels_available();

/// Puts `count` rows of `in` entries, from row `first` on, into the panels of a matrix.
void pack_rows(index_t first, index_t count, index_t in, const float* rows, float* panels);

/// y (rows, out) = x (rows, in) w^T with the first `out` rows of w. Products are summed in f32, in the order of `in`: a
/// result does not depend on the rows and columns beside it. May be called only where `panels_available()`.
void multiply_panels(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* panels,
                     float* y, index_t y_stride);

}  // namespace qkgeom
