// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/model/query_model.hpp"

namespace qkgeom {

namespace detail {

/// Returns the covariance (d, d) of a bucket in Householder coordinates; coordinate 1 covaries only under `joint`.
QKGEOM_INLINE std::vector<double> bucket_covariance(const row_moments& m, const query_model& model);
/// Fits the model of one head, without the roots of its covariances.
QKGEOM_INLINE query_model model_of(const moments_ref& head, const query_model_options& options);

}  // namespace detail

template <context Context, class Moments>
auto fit_queries(Context& ctx, const Moments& moments, const query_model_options& options) {
  const auto heads = heads_of(moments);
  std::vector<query_model> models(heads.size());
  ctx.for_each(heads.size(), [&](index_t h) { models[h] = detail::model_of(heads[h], options); });
  if (options.covariance == covariance_kind::full || options.covariance == covariance_kind::joint) {
    std::vector<query_bucket*> buckets;
    std::vector<std::pair<const row_moments*, const query_model*>> source;
    for (std::size_t h = 0; h < heads.size(); ++h)
      for (std::size_t b = 0; b < models[h].bucket.size(); ++b)
        if (models[h].bucket[b].queries >= 2) {
          buckets.push_back(&models[h].bucket[b]);
          source.emplace_back(&heads[h].q->bucket[b], &models[h]);
        }
    std::vector<std::vector<double>> covariances(buckets.size());
    ctx.for_each(buckets.size(),
                 [&](index_t i) { covariances[i] = detail::bucket_covariance(*source[i].first, *source[i].second); });
    std::vector<const std::vector<double>*> matrices;
    for (const auto& c : covariances) matrices.push_back(&c);
    auto roots = ctx.cholesky(matrices, heads.empty() ? 0 : heads[0].q->total.dim());
    for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i]->root = std::move(roots[i]);
  }
  return shaped_like(moments, std::move(models));
}

}  // namespace qkgeom
