// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom {

inline constexpr index_t panel_rows = 48;

/// Returns the entries of a matrix w (out, in) in panels of 48 rows, each (in, 48), for products in f32 by AVX-512.
/// BLAS reorders w like this in each product; here it is done once, when the weights are read.
index_t panels_size(index_t out, index_t in);

/// Returns whether the CPU has AVX-512; asks the CPU once.
bool panels_available();

/// Puts `count` rows of `in` entries, `stride` apart, into the panels of a matrix, as its rows from `first` on.
void pack_rows(index_t first, index_t count, index_t in, const float* rows, index_t stride, float* panels);

/// Computes y (rows, out) = x (rows, in) w^T with the first `out` rows of w, summed in f32 in the order of `in`: a
/// result does not depend on the rows and columns beside it. May be called only where `panels_available()`.
void multiply_panels(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* panels,
                     float* y, index_t y_stride);

}  // namespace qkgeom
