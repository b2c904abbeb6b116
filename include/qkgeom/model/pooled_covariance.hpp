// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/query_model.hpp"

namespace qkgeom {

/// Returns `full` or `joint` models with one covariance per head, as the decay theorem assumes (4.4, A.1): the mean of
/// the buckets' covariances weighted by n - 1. `models` are the `fit_queries` of `moments`. Throws if they do not fit
/// each other or have another covariance kind.
template <context Context>
std::vector<query_model> with_pooled_covariance(Context& ctx, const layer_moments& moments,
                                                std::vector<query_model> models) {
  const auto heads = heads_of(moments);
  require(models.size() == heads.size(), "with_pooled_covariance: ", models.size(), " query models for moments of ",
          heads.size(), " heads");
  std::vector<std::vector<double>> pooled(heads.size());
  ctx.for_each(heads.size(), [&](index_t h) {
    const auto& model = models[h];
    require(model.covariance == covariance_kind::full || model.covariance == covariance_kind::joint,
            "with_pooled_covariance: the query model must be full or joint, not ", name_of(model.covariance));
    const auto d = heads[h].q->total.mean.size();
    pooled[h].assign(d * d, 0);
    double freedom = 0;
    for (const auto& m : heads[h].q->bucket)
      if (m.count >= 2) freedom += static_cast<double>(m.count - 1);
    for (const auto& m : heads[h].q->bucket)
      if (m.count >= 2)
        pooled[h] = dense::sum(std::move(pooled[h]), detail::bucket_covariance(m, model),
                               static_cast<double>(m.count - 1) / freedom);
  });
  std::vector<const std::vector<double>*> matrices;
  for (const auto& c : pooled) matrices.push_back(&c);
  const auto roots = ctx.cholesky(matrices, heads.empty() ? 0 : heads[0].q->total.dim());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const auto d = heads[h].q->total.mean.size();
    for (auto& bucket : models[h].bucket) {
      if (bucket.queries < 2) continue;
      bucket.root = roots[h];
      for (std::size_t i = 0; i < d; ++i) bucket.variance[i] = std::max(0.0, pooled[h][i * d + i]);
    }
  }
  return models;
}

}  // namespace qkgeom
