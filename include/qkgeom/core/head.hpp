// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// One head: post-RoPE queries (n_q, d) and keys (n_k, d). Each row has a token position (0-based) and the id of its
/// document. Queries and keys may lie at different positions.
template <class T, memory_space Space = memory_space::host>
struct head_view {
  static_assert(is_element_v<T>, "elements are bf16, f16, float or double");
  using element = T;
  static constexpr memory_space space = Space;

  matrix_view<const T, Space> q;
  vector_view<const std::int32_t, Space> q_position;
  vector_view<const std::int32_t, Space> q_document;
  matrix_view<const T, Space> k;
  vector_view<const std::int32_t, Space> k_position;
  vector_view<const std::int32_t, Space> k_document;
  std::optional<index_t> window{};  ///< sliding window in tokens; empty: full attention
};
template <class T, class U, class P, memory_space S, class... Rest>
head_view(matrix_view<T, S>, vector_view<P, S>, vector_view<P, S>, matrix_view<U, S>, Rest...)
    -> head_view<std::remove_const_t<T>, S>;

/// One layer: its heads share positions and keys, so that work on a key head is done once.
template <class T, memory_space Space = memory_space::host>
struct layer_view {
  static_assert(is_element_v<T>, "elements are bf16, f16, float or double");
  using element = T;
  static constexpr memory_space space = Space;

  tensor_view<const T, Space> q;  ///< (n_q, query heads, d)
  vector_view<const std::int32_t, Space> q_position;
  vector_view<const std::int32_t, Space> q_document;
  tensor_view<const T, Space> k;  ///< (n_k, key heads, d)
  vector_view<const std::int32_t, Space> k_position;
  vector_view<const std::int32_t, Space> k_document;
  std::vector<index_t> key_of_query;  ///< (query heads) index of the key head that each query head reads
  std::optional<index_t> window{};    ///< sliding window in tokens; empty: full attention

  /// Returns query head h with the key head that it reads.
  head_view<T, Space> head(index_t h) const {
    return {q.head(h), q_position, q_document, k.head(key_of_query[h]), k_position, k_document, window};
  }
};

/// Views one head as a layer of one head: algorithms are written only for layers.
template <class T, memory_space S>
layer_view<T, S> as_layer(const head_view<T, S>& h) {
  return {{h.q.data, h.q.rows, 1, h.q.cols, h.q.row_stride, h.q.cols},
          h.q_position,
          h.q_document,
          {h.k.data, h.k.rows, 1, h.k.cols, h.k.row_stride, h.k.cols},
          h.k_position,
          h.k_document,
          {0},
          h.window};
}

/// The shapes of a layer, for any element type and memory. Valid as long as the layer.
struct layer_shape {
  struct side {
    index_t rows, heads, dim, row_stride, positions, documents;
  };
  side q, k;
  std::span<const index_t> key_of_query;
  std::optional<index_t> window;

  template <class T, memory_space S>
  layer_shape(const layer_view<T, S>& x)
      : q{x.q.rows, x.q.heads, x.q.dim, x.q.row_stride, x.q_position.size, x.q_document.size},
        k{x.k.rows, x.k.heads, x.k.dim, x.k.row_stride, x.k_position.size, x.k_document.size},
        key_of_query(x.key_of_query),
        window(x.window) {}
};

/// Throws `error`, naming the argument, unless all shapes of the layer agree.
inline void check_shapes(const layer_shape& layer) {
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
