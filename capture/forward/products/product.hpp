// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Layout of batched matrices: entries between the rows of one, and between two of them.
struct matrix_layout {
  index_t row = 0, batch = 0;
};
/// A product c (rows, columns) = a (rows, inner) b^T, b (columns, inner); with `plain` b (inner, columns) and c = a b;
/// with `adds` it is added to c. Sums are in f32.
struct product_shape {
  index_t rows, columns, inner;
  matrix_layout a, b, c;
  index_t batch = 1;
  bool plain = false, adds = false;
};

/// The same product for BLAS, whose matrices are column-major: the transposed result is the product of the transposed
/// factors in the other order, C (m, n) = op(A) B with A from b and B from a.
struct column_major_product {
  bool transposes_a;  ///< op(A) is A transposed
  index_t m, n, k;
  index_t lda, ldb, ldc;
  index_t stride_a, stride_b, stride_c;

  explicit column_major_product(const product_shape& s)
      : transposes_a(!s.plain),
        m(s.columns),
        n(s.rows),
        k(s.inner),
        lda(s.b.row),
        ldb(s.a.row),
        ldc(s.c.row),
        stride_a(s.b.batch),
        stride_b(s.a.batch),
        stride_c(s.c.batch) {}
};

}  // namespace qkgeom
