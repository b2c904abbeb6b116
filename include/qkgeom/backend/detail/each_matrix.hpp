// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/linalg/symmetric.hpp"

namespace qkgeom::backend {

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
  return each_matrix(ctx, matrices, [d](const std::vector<double>& m) { return linalg::symmetric_eigen(m, d); });
}

template <runs_host_work Context>
std::vector<semidefinite_root> cholesky(Context& ctx, const std::vector<const std::vector<double>*>& matrices,
                                        index_t d) {
  return each_matrix(ctx, matrices, [d](const std::vector<double>& m) { return linalg::semidefinite_factor(m, d); });
}

}  // namespace qkgeom::backend
