// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::linalg {

/// Returns v_j' m v_j for every row v_j of v; reads only the upper triangle of the symmetric m.
QKGEOM_INLINE std::vector<double> quadratic_rows(const std::vector<double>& m, const std::vector<double>& v,
                                                 std::size_t d);

/// Writes the products of all rows of a (n, d) with all rows of b (m, d) to `out` (n, m), in single precision; all
/// row-major and packed.
QKGEOM_INLINE void row_products(const float* a, index_t n, const float* b, index_t m, index_t d, float* out);

}  // namespace qkgeom::linalg

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/linalg/detail/products.hpp"
#endif
