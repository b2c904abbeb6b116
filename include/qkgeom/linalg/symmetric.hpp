// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom::linalg {

/// Returns the eigenvalues and eigenvectors of a symmetric matrix (d, d). Throws if an entry is not finite.
QKGEOM_INLINE eigen_system symmetric_eigen(const std::vector<double>& matrix, index_t d);

/// Returns F with matrix = F F' for a symmetric positive semi-definite matrix (d, d): a lower triangle (LLT) if its
/// smallest pivot is at least 1e-6 of the largest, else from a pivoted LDLT, which drops pivots below d eps times the
/// largest; F has a column per remaining pivot. Throws if an entry is not finite.
QKGEOM_INLINE semidefinite_root semidefinite_factor(const std::vector<double>& matrix, index_t d);

}  // namespace qkgeom::linalg

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/linalg/detail/symmetric.hpp"
#endif
