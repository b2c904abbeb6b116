// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// True if every edge of `coarse` is an edge of `fine` and the last edges are equal: then moments over `fine` merge
/// into moments over `coarse`.
inline bool refines(const bucket_edges& fine, const bucket_edges& coarse) {
  const auto &f = fine.edges(), &c = coarse.edges();
  return !c.empty() && !f.empty() && f.back() == c.back() && std::includes(f.begin(), f.end(), c.begin(), c.end());
}

/// Moments over wider buckets, merged from the buckets of `m` inside each. Rows outside the new edges count in the
/// totals only. Throws `error` unless `m.buckets` refines `edges`.
QKGEOM_INLINE layer_moments coarser(const layer_moments& m, const bucket_edges& edges);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/stats/detail/coarser.hpp"
#endif
