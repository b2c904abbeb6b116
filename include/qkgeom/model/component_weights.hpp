// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// How much of each query coordinate, in the basis of the capture, is linear in position.
struct component_weights_result {
  std::vector<double> r2;      ///< (d) R^2 of the coordinate's regression on position
  std::vector<double> weight;  ///< (d) positive part of r2 over its sum; 1 / d each if no coordinate drifts
};

namespace detail {

inline component_weights_result component_weights_of(const row_moments& q) {
  const auto d = static_cast<std::size_t>(q.dim());
  component_weights_result w{std::vector<double>(d), std::vector<double>(d)};
  double sum = 0;
  for (std::size_t i = 0; i < d; ++i) {
    const double r = correlation(q.xt[i], q.xx_diagonal(static_cast<index_t>(i)), q.tt);
    w.r2[i] = r * r;
    sum += w.r2[i];
  }
  for (std::size_t i = 0; i < d; ++i) w.weight[i] = sum > 0 ? w.r2[i] / sum : 1.0 / static_cast<double>(d);
  return w;
}

}  // namespace detail

/// Component weights of each head from its query moments: a result for `head_moments`, a vector (query heads) for
/// `layer_moments`. Flipping the sign of a coordinate changes nothing.
template <context Context, class Moments>
auto component_weights(Context& ctx, const Moments& moments) {
  const auto heads = heads_of(moments);
  std::vector<component_weights_result> results(heads.size());
  ctx.for_each(static_cast<index_t>(heads.size()), [&](index_t h) {
    const auto i = static_cast<std::size_t>(h);
    results[i] = detail::component_weights_of(heads[i].q->total);
  });
  return shaped_like(moments, std::move(results));
}

}  // namespace qkgeom
