// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/linalg/dense.hpp"

namespace qkgeom {

namespace detail {

/// Returns v at length 1, or 0 if it is no longer than `smallest`.
QKGEOM_INLINE std::vector<double> normalised(std::vector<double> v, double smallest);

/// Removes from v its part along the unit vector a, twice, so that the rest is orthogonal up to rounding.
QKGEOM_INLINE std::vector<double> without(std::vector<double> v, const std::vector<double>& a);

/// Returns C = Cov_Q + Cov_K + (mu_Q - mu_K)(mu_Q - mu_K)'.
QKGEOM_INLINE std::vector<double> separation_matrix(const row_moments& q, const row_moments& k);

/// Returns (I - aa') C (I - aa').
QKGEOM_INLINE std::vector<double> projected_off(std::vector<double> c, const std::vector<double>& a);

QKGEOM_INLINE rotation_result rotation_of(const row_moments& q, const row_moments& k, const row_moments& pooled,
                                          std::vector<double> a, std::vector<double> b, double context_length,
                                          double score_scale);

}  // namespace detail

template <context Context, class Moments>
auto planar_rotation(Context& ctx, const Moments& moments, const rotation_options& options) {
  const auto heads = heads_of(moments);
  const auto n = static_cast<index_t>(heads.size());
  std::vector<row_moments> pooled(heads.size());
  std::vector<std::vector<double>> a(heads.size()), b(heads.size()), off_a(heads.size());
  const bool eigen = options.separation == separation_axis_kind::top_eigenvector;
  ctx.for_each(n, [&](index_t i) {
    const auto h = static_cast<std::size_t>(i);
    const auto &q = heads[h].q->total, &k = heads[h].k->total;
    require(q.count > 0 && k.count > 0, "planar_rotation: a head needs at least one query and one key");
    pooled[h] = q;
    merge(pooled[h], k);
    // A smaller covariance with position is rounding of the sums, not drift.
    const double scale = std::sqrt(dense::trace(pooled[h].xx, static_cast<std::size_t>(q.dim())) * pooled[h].tt);
    a[h] = detail::normalised(pooled[h].xt, 4 * std::numeric_limits<double>::epsilon() * scale);
    const auto gap = dense::difference(q.mean, k.mean);
    const double size = dense::norm(q.mean) + dense::norm(k.mean);
    b[h] = detail::normalised(detail::without(gap, a[h]), 4 * std::numeric_limits<double>::epsilon() * size);
    if (eigen) off_a[h] = detail::projected_off(detail::separation_matrix(q, k), a[h]);
  });
  if (eigen) {
    std::vector<const std::vector<double>*> matrices;
    for (const auto& m : off_a) matrices.push_back(&m);
    const auto systems = ctx.symmetric_eigen(matrices, heads.empty() ? 0 : pooled[0].dim());
    for (std::size_t h = 0; h < heads.size(); ++h) {
      b[h].assign(systems[h].vectors.begin(), systems[h].vectors.begin() + pooled[h].dim());
      // An eigenvector orthogonal to a keeps its length; if only a has variance, the rest is rounding.
      b[h] = detail::normalised(detail::without(b[h], a[h]), 0.5);
      const auto gap = dense::difference(heads[h].q->total.mean, heads[h].k->total.mean);
      if (dense::dot(b[h], gap) < 0) b[h] = dense::scaled(std::move(b[h]), -1.0);
    }
  }
  std::vector<rotation_result> results(heads.size());
  ctx.for_each(n, [&](index_t i) {
    const auto h = static_cast<std::size_t>(i);
    const auto& edges = heads[h].buckets->edges();
    const index_t length = options.context_length > 0 ? options.context_length : edges.empty() ? 0 : edges.back();
    results[h] = detail::rotation_of(heads[h].q->total, heads[h].k->total, pooled[h], std::move(a[h]), std::move(b[h]),
                                     static_cast<double>(length), options.score_scale);
  });
  return shaped_like(moments, std::move(results));
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/geometry/detail/planar_rotation_of.hpp"
#endif
