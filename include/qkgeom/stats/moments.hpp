// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/head.hpp"

namespace qkgeom {

/// Moments of one head: the input of PCA, rotation and query models.
struct head_moments {
  bucket_edges buckets;
  side_moments q, k;

  index_t dim() const { return q.total.dim(); }
  bool operator==(const head_moments&) const = default;
};

/// Moments of the heads of a layer; each key head appears once.
struct layer_moments {
  bucket_edges buckets;
  std::vector<side_moments> q;        ///< (query heads)
  std::vector<side_moments> k;        ///< (key heads)
  std::vector<index_t> key_of_query;  ///< (query heads) index of the key head that each query head reads

  bool operator==(const layer_moments&) const = default;
};

struct moment_options {
  scatter_kind q_bucket = scatter_kind::full;      ///< per query bucket; only `linear_drift` can do without `full`
  scatter_kind k_bucket = scatter_kind::diagonal;  ///< per key bucket
  index_t context_length = 0;                      ///< last bucket edge, tokens; 0: one past the last position
};

namespace detail {

/// Returns one past the last position.
inline index_t length_of(const vector_view<const std::int32_t>& positions) {
  index_t length = 0;
  for (const std::int32_t t : positions) length = std::max<index_t>(length, index_t{t} + 1);
  return length;
}

/// Returns the bucket of each row; -1 outside all buckets. Throws if a position is negative.
inline std::vector<std::int32_t> bucket_of_rows(const bucket_edges& buckets,
                                                const vector_view<const std::int32_t>& positions) {
  std::vector<std::int32_t> rows(positions.size);
  for (index_t i = 0; i < positions.size; ++i) {
    require(positions[i] >= 0, "position of row ", i, " is ", positions[i], ", but positions start at 0");
    rows[i] = static_cast<std::int32_t>(buckets(positions[i]));
  }
  return rows;
}

/// Throws `error` if the rows of a head are too large or too small for computations from their moments.
inline void check_sizes(const char* side, const std::vector<side_moments>& heads) {
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const auto& m = heads[h].total;
    double largest = 0;
    for (index_t i = 0; i < m.dim() && m.count > 0; ++i)
      largest = std::max({largest, std::abs(m.mean[i]), std::sqrt(m.xx_diagonal(i) / static_cast<double>(m.count))});
    require(takes_size(largest), side, " head ", h, " holds values of size ", largest, ", but sizes must lie between ",
            smallest_size, " and ", largest_size, "; scale the rows");
  }
}

/// Returns the longer of two bucket grids; throws unless one is the beginning of the other.
inline bucket_edges joined(const bucket_edges& a, const bucket_edges& b) {
  const auto &x = a.edges(), &y = b.edges();
  const auto& longer = x.size() >= y.size() ? x : y;
  const auto& shorter = x.size() >= y.size() ? y : x;
  require(std::equal(shorter.begin(), shorter.end(), longer.begin()),
          "cannot merge moments over different bucket edges; give both the same buckets and context_length");
  return bucket_edges(longer);
}

/// Throws `error` if the other grid, of `longest` buckets, may hold rows of this side outside this side's buckets.
inline void check_rows_in_grid(const side_moments& side, std::size_t longest) {
  if (side.bucket.empty() || side.bucket.size() >= longest) return;
  index_t inside = 0;
  for (const auto& b : side.bucket) inside += b.count;
  require(inside == side.total.count, "cannot merge moments over different bucket edges: ", side.total.count - inside,
          " rows lie outside the shorter edges; give both the same context_length");
}

}  // namespace detail

/// Computes the moments of every head of a layer, per bucket and in total, in f64 for any element type
/// (docs/mathematics.md, Moments). Throws if shapes do not fit, a position is negative, or a row is not finite or of a
/// size that f64 does not take (`takes_size`).
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
  detail::check_sizes("q", m.q);
  detail::check_sizes("k", m.k);
  return m;
}

/// Does the same for one head.
template <context Context, class T, memory_space S, bucketing Buckets>
head_moments accumulate(Context& ctx, const head_view<T, S>& head, const Buckets& buckets,
                        const moment_options& options = {}) {
  auto m = accumulate(ctx, as_layer(head), buckets, options);
  return {std::move(m.buckets), std::move(m.q[0]), std::move(m.k[0])};
}

/// Throws `error`, beginning with `function`, unless the moments have the layer's numbers of heads and head size.
inline void check_moments(const char* function, const layer_moments& m, const layer_shape& layer) {
  require(static_cast<index_t>(m.q.size()) == layer.q.heads && static_cast<index_t>(m.k.size()) == layer.k.heads,
          function, ": moments of ", m.q.size(), " query and ", m.k.size(), " key heads for ", layer.q.heads, " and ",
          layer.k.heads);
  for (const auto* side : {&m.q, &m.k})
    for (const auto& head : *side)
      require(head.total.dim() == layer.q.dim, function, ": moments of head size ", head.total.dim(),
              " for queries and keys of size ", layer.q.dim);
}

/// Adds the moments of further rows to one side. Throws `error` as the merge of two heads does.
inline void merge(side_moments& into, const side_moments& from) {
  detail::check_rows_in_grid(into, from.bucket.size());
  detail::check_rows_in_grid(from, into.bucket.size());
  merge(into.total, from.total);
  for (std::size_t b = 0; b < from.bucket.size(); ++b)
    if (b < into.bucket.size())
      merge(into.bucket[b], from.bucket[b]);
    else
      into.bucket.push_back(from.bucket[b]);
}

/// Merges the moments of the rows of `a` and `b`. Head sizes and bucket grids must be equal, except that one grid may
/// extend the other if no row lies beyond the shorter one. Throws `error` otherwise.
inline head_moments merge(head_moments a, const head_moments& b) {
  a.buckets = detail::joined(a.buckets, b.buckets);
  merge(a.q, b.q);
  merge(a.k, b.k);
  return a;
}

/// Merges the moments of each head. Throws `error` if the heads differ.
inline layer_moments merge(layer_moments a, const layer_moments& b) {
  require(a.q.size() == b.q.size() && a.k.size() == b.k.size() && a.key_of_query == b.key_of_query,
          "cannot merge moments of layers with different heads");
  a.buckets = detail::joined(a.buckets, b.buckets);
  for (std::size_t h = 0; h < a.q.size(); ++h) merge(a.q[h], b.q[h]);
  for (std::size_t h = 0; h < a.k.size(); ++h) merge(a.k[h], b.k[h]);
  return a;
}

/// Returns whether every edge of `coarse` is an edge of `fine` and the last edges are equal, so that moments over
/// `fine` merge into moments over `coarse`.
inline bool refines(const bucket_edges& fine, const bucket_edges& coarse) {
  const auto &f = fine.edges(), &c = coarse.edges();
  return !c.empty() && !f.empty() && f.back() == c.back() && std::includes(f.begin(), f.end(), c.begin(), c.end());
}

/// Merges moments into wider buckets; rows outside count only in totals. Throws `error` unless `m.buckets` refines
/// `edges`.
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

/// References the moments of a query head and of the key head that it reads.
struct moments_ref {
  const bucket_edges* buckets;
  const side_moments* q;
  const side_moments* k;
};

/// Merges the moments of a head's queries and keys.
inline row_moments pooled_moments(const moments_ref& head) {
  auto pooled = head.q->total;
  merge(pooled, head.k->total);
  return pooled;
}

/// Returns the query heads of the moments, each with its key head.
inline std::vector<moments_ref> heads_of(const head_moments& m) { return {{&m.buckets, &m.q, &m.k}}; }
inline std::vector<moments_ref> heads_of(const layer_moments& m) {
  std::vector<moments_ref> heads;
  for (std::size_t h = 0; h < m.q.size(); ++h) heads.push_back({&m.buckets, &m.q[h], &m.k[m.key_of_query[h]]});
  return heads;
}

/// Returns results per head in the shape of the moments they came from: a vector for a layer, the value for one head.
template <class R>
std::vector<R> shaped_like(const layer_moments&, std::vector<R>&& results) {
  return std::move(results);
}
template <class R>
R shaped_like(const head_moments&, std::vector<R>&& results) {
  return std::move(results.front());
}

/// Returns Pearson's correlation from sums of squares and products; 0 when either side does not vary.
inline double correlation(double xy, double xx, double yy) {
  return xx > 0 && yy > 0 ? std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0) : 0.0;
}
/// Returns the regression slope of x on t; 0 when t does not vary.
inline double slope(double xt, double tt) { return tt > 0 ? xt / tt : 0.0; }

}  // namespace qkgeom
