// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"

namespace qkgeom {

QKGEOM_INLINE void check_shapes(const layer_shape& layer) {
  const auto& [q, k, key_of_query, window] = layer;
  require(q.dim == k.dim, "q and k must have the same head size, but q has ", q.dim, " and k ", k.dim);
  require(q.dim > 0, "q and k must have a head size of at least 1");
  const std::pair<const char*, layer_shape::side> sides[] = {{"q", q}, {"k", k}};
  for (const auto& [name, x] : sides) {
    require(x.positions == x.rows, name, "_position has ", x.positions, " entries for ", x.rows, " rows of ", name);
    require(x.documents == x.rows, name, "_example has ", x.documents, " entries for ", x.rows, " rows of ", name);
  }
  require(static_cast<index_t>(key_of_query.size()) == q.heads, "key_of_query has ", key_of_query.size(),
          " entries for ", q.heads, " query heads");
  for (const auto& [name, x] : sides)
    require(x.rows < 2 || x.row_stride >= x.dim || -x.row_stride >= x.dim, name, ": rows of ", x.dim,
            " elements cannot begin ", x.row_stride, " apart (row_stride)");
  for (const index_t h : key_of_query)
    require(h >= 0 && h < k.heads, "key_of_query names key head ", h, " of ", k.heads);
  require(!window || *window > 0, "window must be at least 1 token, not ", window.value_or(0));
}

}  // namespace qkgeom
