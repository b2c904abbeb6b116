// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Shares of the query coordinates, in the basis of the capture, that are linear in position.
struct component_weights_result {
  std::vector<double> r2;      ///< (d) R^2 of each coordinate's regression on position
  std::vector<double> weight;  ///< (d) r2 over its sum; 1 / d each if no coordinate drifts
};

/// Computes component weights from the moments of a head's queries (docs/mathematics.md, Query model).
inline component_weights_result component_weights(const row_moments& q) {
  const auto d = q.mean.size();
  component_weights_result w{std::vector<double>(d), std::vector<double>(d)};
  double sum = 0;
  for (std::size_t i = 0; i < d; ++i) {
    const double r = correlation(q.xt[i], q.xx_diagonal(i), q.tt);
    w.r2[i] = r * r;
    sum += w.r2[i];
  }
  for (std::size_t i = 0; i < d; ++i) w.weight[i] = sum > 0 ? w.r2[i] / sum : 1.0 / static_cast<double>(d);
  return w;
}

/// Computes component weights of each head from `head_moments` (one) or `layer_moments` (a vector, per query head).
template <context Context, class Moments>
auto component_weights(Context& ctx, const Moments& moments) {
  const auto heads = heads_of(moments);
  std::vector<component_weights_result> results(heads.size());
  ctx.for_each(heads.size(), [&](index_t h) { results[h] = component_weights(heads[h].q->total); });
  return shaped_like(moments, std::move(results));
}

}  // namespace qkgeom
