// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

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
  std::optional<index_t> window{};  ///< sliding window in tokens; none: full attention
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
  std::optional<index_t> window{};    ///< sliding window in tokens; none: full attention

  /// Query head h with the key head that it reads.
  head_view<T, Space> head(index_t h) const {
    return {q.head(h), q_position, q_document, k.head(key_of_query[h]), k_position, k_document, window};
  }
};

/// One head as a layer of one head: algorithms are written for layers alone.
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

/// Throws `error`, naming the argument, unless all shapes of the layer agree.
template <class T, memory_space S>
void check_shapes(const layer_view<T, S>& x) {
  require(x.q.dim == x.k.dim, "q and k must have the same head size, but q has ", x.q.dim, " and k ", x.k.dim);
  require(x.q.dim > 0, "q and k must have a head size of at least 1");
  require(x.q_position.size == x.q.rows, "q_position has ", x.q_position.size, " entries for ", x.q.rows, " rows of q");
  require(x.q_document.size == x.q.rows, "q_example has ", x.q_document.size, " entries for ", x.q.rows, " rows of q");
  require(x.k_position.size == x.k.rows, "k_position has ", x.k_position.size, " entries for ", x.k.rows, " rows of k");
  require(x.k_document.size == x.k.rows, "k_example has ", x.k_document.size, " entries for ", x.k.rows, " rows of k");
  require(static_cast<index_t>(x.key_of_query.size()) == x.q.heads, "key_of_query has ", x.key_of_query.size(),
          " entries for ", x.q.heads, " query heads");
  const auto strides = [](const char* name, const auto& rows) {
    require(rows.rows < 2 || rows.row_stride >= rows.dim || -rows.row_stride >= rows.dim, name, ": rows of ", rows.dim,
            " elements cannot begin ", rows.row_stride, " apart (row_stride)");
  };
  strides("q", x.q);
  strides("k", x.k);
  for (const index_t h : x.key_of_query)
    require(h >= 0 && h < x.k.heads, "key_of_query names key head ", h, " of ", x.k.heads);
  require(!x.window || *x.window > 0, "window must be at least 1 token, not ", x.window.value_or(0));
}

}  // namespace qkgeom
