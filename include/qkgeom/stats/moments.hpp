// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/head.hpp"

namespace qkgeom {

/// Moments of one head, everything that PCA, rotation and query models need.
struct head_moments {
  bucket_edges buckets;
  side_moments q, k;

  index_t dim() const { return q.total.dim(); }
  bool operator==(const head_moments&) const = default;
};

/// Moments of the heads of a layer; a key head that several query heads read is there once.
struct layer_moments {
  bucket_edges buckets;
  std::vector<side_moments> q;  ///< (query heads)
  std::vector<side_moments> k;  ///< (key heads)
  std::vector<index_t> key_of_query;

  bool operator==(const layer_moments&) const = default;
};

struct moment_options {
  scatter_kind q_bucket = scatter_kind::full;      ///< per query bucket: `full` and `joint` models need the covariance
  scatter_kind k_bucket = scatter_kind::diagonal;  ///< per key bucket
  index_t context_length = 0;                      ///< last bucket edge, in tokens; 0: one past the last position seen
};

namespace detail {

inline index_t length_of(const vector_view<const std::int32_t>& positions) {
  index_t length = 0;
  for (const std::int32_t t : positions) length = std::max<index_t>(length, index_t{t} + 1);
  return length;
}

inline std::vector<std::int32_t> bucket_of_rows(const bucket_edges& buckets,
                                                const vector_view<const std::int32_t>& positions) {
  std::vector<std::int32_t> rows(positions.size);
  for (index_t i = 0; i < positions.size; ++i) {
    require(positions[i] >= 0, "position of row ", i, " is ", positions[i], ", but positions start at 0");
    rows[i] = static_cast<std::int32_t>(buckets(positions[i]));
  }
  return rows;
}

}  // namespace detail

/// Moments of every head of a layer, per bucket and in total, in f64 whatever the element type. NaN or Inf rows are an
/// error that names the side, the head and the row.
template <context Context, class T, memory_space S, bucketing Buckets>
layer_moments accumulate(Context& ctx, const layer_view<T, S>& layer, const Buckets& buckets,
                         const moment_options& options = {}) {
  check_shapes(layer);
  const auto q_position = ctx.host_copy(layer.q_position), k_position = ctx.host_copy(layer.k_position);
  const index_t length = options.context_length > 0
                             ? options.context_length
                             : std::max(detail::length_of(q_position.view()), detail::length_of(k_position.view()));
  layer_moments m{buckets.edges(length), {}, {}, layer.key_of_query};
  m.q = ctx.moments("q", layer.q, layer.q_position, detail::bucket_of_rows(m.buckets, q_position.view()),
                    m.buckets.count(), options.q_bucket);
  m.k = ctx.moments("k", layer.k, layer.k_position, detail::bucket_of_rows(m.buckets, k_position.view()),
                    m.buckets.count(), options.k_bucket);
  return m;
}

/// The same for one head.
template <context Context, class T, memory_space S, bucketing Buckets>
head_moments accumulate(Context& ctx, const head_view<T, S>& head, const Buckets& buckets,
                        const moment_options& options = {}) {
  auto m = accumulate(ctx, as_layer(head), buckets, options);
  return {std::move(m.buckets), std::move(m.q[0]), std::move(m.k[0])};
}

/// Throws `error`, beginning with the name of the function that asks, unless the moments are of heads like the layer's:
/// as many of queries and of keys, of the same head size.
template <class T, memory_space S>
void check_moments(const char* function, const layer_moments& m, const layer_view<T, S>& layer) {
  require(static_cast<index_t>(m.q.size()) == layer.q.heads && static_cast<index_t>(m.k.size()) == layer.k.heads,
          function, ": moments of ", m.q.size(), " query and ", m.k.size(), " key heads for ", layer.q.heads, " and ",
          layer.k.heads);
  for (const auto* side : {&m.q, &m.k})
    for (const auto& head : *side)
      require(head.total.dim() == layer.q.dim, function, ": moments of head size ", head.total.dim(),
              " for queries and keys of size ", layer.q.dim);
}

namespace detail {

/// The longer of two bucket grids, if one is the beginning of the other.
inline bucket_edges joined(const bucket_edges& a, const bucket_edges& b) {
  const auto &x = a.edges(), &y = b.edges();
  const auto& longer = x.size() >= y.size() ? x : y;
  const auto& shorter = x.size() >= y.size() ? y : x;
  require(std::equal(shorter.begin(), shorter.end(), longer.begin()),
          "cannot merge moments over different bucket edges; give both the same buckets and context_length");
  return bucket_edges(longer);
}

/// Throws `error` if another grid is longer and a side has rows that its own buckets do not hold, but the other's may.
inline void check_rows_in_grid(const side_moments& side, std::size_t longest) {
  if (side.bucket.empty() || side.bucket.size() >= longest) return;
  index_t inside = 0;
  for (const auto& b : side.bucket) inside += b.count;
  require(inside == side.total.count, "cannot merge moments over different bucket edges: ", side.total.count - inside,
          " rows lie outside the shorter edges; give both the same context_length");
}

inline void merge_side(side_moments& into, const side_moments& from) {
  check_rows_in_grid(into, from.bucket.size());
  check_rows_in_grid(from, into.bucket.size());
  merge(into.total, from.total);
  for (std::size_t b = 0; b < from.bucket.size(); ++b)
    if (b < into.bucket.size())
      merge(into.bucket[b], from.bucket[b]);
    else
      into.bucket.push_back(from.bucket[b]);
}

}  // namespace detail

/// Moments of the rows behind `a` and `b` together. Both must have the same head size and bucket grid; one grid may go
/// on where the other ends, if no row lies beyond that end. Throws `error` otherwise.
inline head_moments merge(head_moments a, const head_moments& b) {
  a.buckets = detail::joined(a.buckets, b.buckets);
  detail::merge_side(a.q, b.q);
  detail::merge_side(a.k, b.k);
  return a;
}

/// The same of a layer's heads. Throws `error` if the heads differ.
inline layer_moments merge(layer_moments a, const layer_moments& b) {
  require(a.q.size() == b.q.size() && a.k.size() == b.k.size() && a.key_of_query == b.key_of_query,
          "cannot merge moments of layers with different heads");
  a.buckets = detail::joined(a.buckets, b.buckets);
  for (std::size_t h = 0; h < a.q.size(); ++h) detail::merge_side(a.q[h], b.q[h]);
  for (std::size_t h = 0; h < a.k.size(); ++h) detail::merge_side(a.k[h], b.k[h]);
  return a;
}

/// What analyses read: the moments of a query head beside those of the key head it reads. Valid as long as its source.
struct moments_ref {
  const bucket_edges* buckets;
  const side_moments* q;
  const side_moments* k;
};

inline std::vector<moments_ref> heads_of(const head_moments& m) { return {{&m.buckets, &m.q, &m.k}}; }
inline std::vector<moments_ref> heads_of(const layer_moments& m) {
  std::vector<moments_ref> heads;
  for (std::size_t h = 0; h < m.q.size(); ++h) heads.push_back({&m.buckets, &m.q[h], &m.k[m.key_of_query[h]]});
  return heads;
}

/// A layer's results are a vector, one head's are the value itself.
template <class R>
std::vector<R> shaped_like(const layer_moments&, std::vector<R>&& results) {
  return std::move(results);
}
template <class R>
R shaped_like(const head_moments&, std::vector<R>&& results) {
  return std::move(results.front());
}

/// Pearson correlation from sums of squares and products; 0 when either side does not vary.
inline double correlation(double xy, double xx, double yy) {
  return xx > 0 && yy > 0 ? std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0) : 0.0;
}
/// Regression slope of x on t; 0 when t does not vary.
inline double slope(double xt, double tt) { return tt > 0 ? xt / tt : 0.0; }

}  // namespace qkgeom
