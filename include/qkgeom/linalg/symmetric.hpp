// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom::linalg {

/// Eigenvalues and eigenvectors of a symmetric matrix (d, d). Throws if an entry is not finite.
QKGEOM_INLINE eigen_system symmetric_eigen(const std::vector<double>& matrix, index_t d);

/// F with matrix = F F' for a symmetric positive semi-definite matrix (d, d): a lower triangle (LLT) where its smallest
/// pivot is at least 1e-6 of the largest, else by LDLT with pivoting. There, pivots below d eps times the largest count
/// as zero, and F has a column per pivot that is left. Throws if an entry is not finite.
QKGEOM_INLINE semidefinite_root semidefinite_factor(const std::vector<double>& matrix, index_t d);

}  // namespace qkgeom::linalg

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/linalg/detail/symmetric.hpp"
#endif
