// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// True if every edge of `coarse` is one of `fine`, and both end at the same place: then moments over `fine` hold those
/// over `coarse`.
inline bool refines(const bucket_edges& fine, const bucket_edges& coarse) {
  const auto &f = fine.edges(), &c = coarse.edges();
  return !c.empty() && !f.empty() && f.back() == c.back() && std::includes(f.begin(), f.end(), c.begin(), c.end());
}

/// Moments over wider buckets: those of the buckets inside each are merged. Rows outside the new edges are in the
/// totals only. Throws `error` unless `m.buckets` refines them.
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
        const index_t to = edges(m.buckets.start(static_cast<index_t>(b)));
        if (to >= 0) merge(side.bucket[to], narrow[b]);
      }
    }
  return wide;
}

}  // namespace qkgeom
