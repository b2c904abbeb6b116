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

/// Returns f(matrix) for each matrix, in parallel on the host.
template <runs_host_work Context, class F>
auto each_matrix(Context& ctx, const std::vector<const std::vector<double>*>& matrices, const F& f) {
  std::vector<decltype(f(*matrices[0]))> result(matrices.size());
  ctx.for_each(static_cast<index_t>(matrices.size()), [&](index_t i) { result[i] = f(*matrices[i]); });
  return result;
}

template <runs_host_work Context>
std::vector<eigen_system> symmetric_eigen(Context& ctx, const std::vector<const std::vector<double>*>& matrices,
                                          index_t d) {
  return each_matrix(ctx, matrices, [d](const std::vector<double>& m) { return symmetric_eigen(m, d); });
}

template <runs_host_work Context>
std::vector<semidefinite_root> cholesky(Context& ctx, const std::vector<const std::vector<double>*>& matrices,
                                        index_t d) {
  return each_matrix(ctx, matrices, [d](const std::vector<double>& m) { return semidefinite_factor(m, d); });
}

}  // namespace qkgeom::linalg

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/linalg/detail/symmetric.hpp"
#endif
