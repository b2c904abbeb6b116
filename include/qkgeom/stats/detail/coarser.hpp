// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "qkgeom/stats/coarser.hpp"

namespace qkgeom {

QKGEOM_INLINE layer_moments coarser(const layer_moments& m, const bucket_edges& edges) {
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
