// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom::backend {

/// f(matrix) for each matrix, in parallel on the host.
template <runs_host_work Context, class F>
auto each_matrix(Context& ctx, const std::vector<const std::vector<double>*>& matrices, const F& f) {
  std::vector<decltype(f(*matrices[0]))> result(matrices.size());
  ctx.for_each(static_cast<index_t>(matrices.size()), [&](index_t i) { result[i] = f(*matrices[i]); });
  return result;
}

}  // namespace qkgeom::backend
