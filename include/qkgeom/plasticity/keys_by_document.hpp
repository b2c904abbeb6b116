// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/head.hpp"

namespace qkgeom {

/// Groups keys by document and orders each group by position; `across_documents` makes one group of all keys. Positions
/// (tokens) and documents belong to the rows (n) of a layer's k.
QKGEOM_INLINE keys_by_document order_keys_by_document(const vector_view<const std::int32_t>& position,
                                                      const vector_view<const std::int32_t>& document,
                                                      bool across_documents);

/// Orders the keys of a layer in the memory of any context.
template <context Context, class T, memory_space S>
keys_by_document order_keys_by_document(Context& ctx, const layer_view<T, S>& layer, bool across_documents) {
  const auto position = ctx.host_copy(layer.k_position), document = ctx.host_copy(layer.k_document);
  return order_keys_by_document(position.view(), document.view(), across_documents);
}

/// Keys in groups by document and key bucket.
struct bucketed_keys {
  keys_by_document groups;
  std::vector<index_t> bucket;      ///< (groups) key bucket
  std::vector<std::size_t> source;  ///< (groups) index of the original group

  /// Returns the indices of the groups of bucket b.
  std::vector<index_t> members(index_t b) const {
    std::vector<index_t> in;
    for (std::size_t g = 0; g < bucket.size(); ++g)
      if (bucket[g] == b) in.push_back(g);
    return in;
  }
};

/// Splits each group where the key bucket changes; omits keys outside all buckets.
QKGEOM_INLINE bucketed_keys split_by_bucket(const keys_by_document& whole, const bucket_edges& edges);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/plasticity/detail/keys_by_document.hpp"
#endif
