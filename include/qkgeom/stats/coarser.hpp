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
inline layer_moments coarser(const layer_moments& m, const bucket_edges& edges) {
  require(refines(m.buckets, edges), "the moments' bucket edges do not hold all the edges asked for");
  layer_moments wide{edges, m.q, m.k, m.key_of_query};
  for (auto* sides : {&wide.q, &wide.k})
    for (side_moments& side : *sides) {
      const auto narrow = std::move(side.bucket);
      side.bucket.clear();
      if (narrow.empty()) continue;
      const auto kind = narrow[0].has_full_scatter() ? scatter_kind::full : scatter_kind::diagonal;
      side.bucket.assign(edges.count(), row_moments::zero(narrow[0].dim(), kind));
      for (std::size_t b = 0; b < narrow.size(); ++b) {
        const index_t wider = edges(m.buckets.start(b));
        if (wider >= 0) merge(side.bucket[wider], narrow[b]);
      }
    }
  return wide;
}

}  // namespace qkgeom
