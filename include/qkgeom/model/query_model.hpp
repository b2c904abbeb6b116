// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Covariance of the Gaussian query model (sections 4.4.2, 4.4.3): `diagonal` in the Householder basis (4.12); `full`
/// over coordinates 2..d, coordinate 1 independent (A.2); `joint` over all d, in any basis; `linear_drift`: the mean is
/// alpha + beta t in every coordinate, with one residual variance per coordinate for all buckets.
enum class covariance_kind { diagonal, full, joint, linear_drift };

inline constexpr std::array<covariance_kind, 4> all_covariance_kinds{
    covariance_kind::diagonal, covariance_kind::full, covariance_kind::joint, covariance_kind::linear_drift};
constexpr std::string_view name_of(covariance_kind c) {
  constexpr std::string_view names[] = {"diagonal", "full", "joint", "linear_drift"};
  return names[static_cast<int>(c)];
}

/// Query position tau of a bucket: half the sum of its edges, or the mean position of its queries.
enum class query_position { middle, mean };

struct query_model_options {
  covariance_kind covariance = covariance_kind::diagonal;
  query_position position = query_position::middle;
  bool no_drift = false;  ///< counterfactual: omits the term beta_pos tau of m
};

/// The query model of one bucket, in Householder coordinates.
struct query_bucket {
  index_t queries = 0;           ///< fewer than 2: the bucket has no model
  double tau = 0;                ///< query position, tokens
  std::vector<double> mean;      ///< (d) mean query at tau; coordinate 1 is alpha_pos + beta_pos tau
  std::vector<double> variance;  ///< (d), coordinate 1 is sigma2_pos unless the covariance is `joint`
  semidefinite_root root;        ///< `full` and `joint`: covariance = root root'
};

/// The Gaussian query model of a head.
struct query_model {
  covariance_kind covariance = covariance_kind::diagonal;
  bucket_edges buckets;
  std::vector<double> reflector;  ///< unit u of H = I - 2uu' (4.10); empty: H = I
  double alpha_pos = 0;           ///< intercept of the regression of coordinate 1 on position
  double beta_pos = 0;            ///< slope of that regression, per token: |beta|
  double sigma2_pos = 0;          ///< residual variance of coordinate 1 (n - 2)
  double r2_pos = 0;              ///< R^2 of that regression
  std::vector<query_bucket> bucket;
};

/// Hashes covariance, reflector and buckets without edges (64-bit FNV-1a). Pair sums merge only under one model.
inline std::uint64_t fingerprint(const query_model& m) {
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&](double x) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(x)) * 1099511628211u;
    hash ^= hash >> 32;  // products carry nothing downwards
  };
  const auto add_all = [&](const std::vector<double>& x) { std::for_each(x.begin(), x.end(), add); };
  add(static_cast<double>(m.covariance));
  add_all(m.reflector);
  for (const auto& b : m.bucket) {
    add(static_cast<double>(b.queries));
    add(b.tau);
    add_all(b.mean);
    add_all(b.variance);
    add_all(b.root.factor);
  }
  return hash;
}

/// Fits the Gaussian query model (4.9 to 4.12; docs/mathematics.md, Query model) of each head from `head_moments`
/// (returns a query_model) or `layer_moments` (a vector, one per query head). A bucket with fewer than 2 queries has no
/// model. Throws if a bucket's moments lack the covariance that the model needs.
template <context Context, class Moments>
auto fit_queries(Context& ctx, const Moments& moments, const query_model_options& options = {});

/// Returns the score distribution of query bucket b; empty if the bucket has no model. Keys before the bucket's start
/// are admissible, in windowed layers only after tau - window (tokens).
inline score_distribution scores_of(const query_model& model, index_t b, std::optional<index_t> window) {
  const auto& bucket = model.bucket[b];
  score_distribution distribution = admitting(model.buckets.start(b), bucket.tau, window);
  if (bucket.queries < 2) return distribution;
  distribution.mean = reflect(model.reflector, bucket.mean);
  if (model.covariance == covariance_kind::diagonal || model.covariance == covariance_kind::linear_drift) {
    distribution.variance = bucket.variance;
    return distribution;
  }
  distribution.rank = bucket.root.rank;
  distribution.factor = bucket.root.factor;
  const std::size_t d = model.reflector.size(), r = distribution.rank;
  std::vector<double> along(r);
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t c = 0; c < r; ++c) along[c] += 2 * model.reflector[i] * distribution.factor[i * r + c];
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t c = 0; c < r; ++c) distribution.factor[i * r + c] -= model.reflector[i] * along[c];
  return distribution;
}

namespace detail {

/// Returns the variances (n - 1) of (eps, coordinates 2..d) of a bucket in Householder coordinates; the variance of eps
/// is over all queries unless the covariance is `joint`.
inline std::vector<double> bucket_variance(const row_moments& m, const query_model& model) {
  auto v = reflected_diagonal(model.reflector, m.xx, m.mean.size());
  if (model.covariance == covariance_kind::joint)
    v[0] += model.beta_pos * (model.beta_pos * m.tt - 2 * reflect(model.reflector, m.xt)[0]);
  v = dense::scaled(std::move(v), 1.0 / static_cast<double>(m.count - 1));
  if (model.covariance != covariance_kind::joint) v[0] = model.sigma2_pos;
  for (double& x : v) x = std::max(0.0, x);
  return v;
}

/// Returns the covariance (d, d) of a bucket in Householder coordinates; coordinate 1 covaries only under `joint`.
inline std::vector<double> bucket_covariance(const row_moments& m, const query_model& model) {
  const auto d = m.mean.size();
  auto c = reflect_both(model.reflector, m.xx);
  if (model.covariance == covariance_kind::joint) {
    const auto xt = reflect(model.reflector, m.xt);
    for (std::size_t i = 1; i < d; ++i) c[i] = c[i * d] = c[i] - model.beta_pos * xt[i];
  } else {
    for (std::size_t i = 1; i < d; ++i) c[i] = c[i * d] = 0;
  }
  c = dense::scaled(std::move(c), 1.0 / static_cast<double>(m.count - 1));
  c[0] = bucket_variance(m, model)[0];
  return c;
}

/// Fits the model of one head, without the roots of its covariances.
inline query_model model_of(const moments_ref& head, const query_model_options& options) {
  const auto& q = head.q->total;
  const auto d = q.mean.size();
  query_model model{options.covariance, *head.buckets, {}, 0, 0, 0, 0, {}};
  const auto beta = dense::scaled(q.xt, q.tt > 0 ? 1.0 / q.tt : 0.0);
  model.reflector = householder_reflector(beta);
  model.beta_pos = dense::norm(beta);
  std::vector<double> e1(d);
  e1[0] = 1;
  const auto axis = reflect(model.reflector, e1);
  model.alpha_pos = dense::dot(q.mean, axis) - model.beta_pos * q.mean_t;
  const double xx = dense::quadratic(q.xx, axis), xt = dense::dot(q.xt, axis);
  model.r2_pos = correlation(xt, xx, q.tt) * correlation(xt, xx, q.tt);
  model.sigma2_pos = q.count > 2 ? std::max(0.0, xx - xt * model.beta_pos) / static_cast<double>(q.count - 2) : 0.0;
  const auto mean_all = reflect(model.reflector, q.mean);
  std::vector<double> drift_variance(d);
  if (options.covariance == covariance_kind::linear_drift && q.count > 1) {
    drift_variance =
        dense::scaled(reflected_diagonal(model.reflector, q.xx, d), 1.0 / static_cast<double>(q.count - 1));
    drift_variance[0] = std::max(0.0, xx - xt * model.beta_pos) / static_cast<double>(q.count - 1);
  }
  for (index_t b = 0; b < head.buckets->count(); ++b) {
    const auto& m = head.q->bucket[b];
    query_bucket out{
        m.count, options.position == query_position::mean ? m.mean_t : head.buckets->middle(b), {}, {}, {}};
    if (m.count >= 2) {
      const bool drift = options.covariance == covariance_kind::linear_drift;
      out.mean = drift ? mean_all : reflect(model.reflector, m.mean);
      out.mean[0] = model.alpha_pos + (options.no_drift ? 0.0 : model.beta_pos * out.tau);
      out.variance = drift_variance;
      if (!drift) {
        require(m.has_full_scatter(),
                "fit_queries needs the covariance of each query bucket: accumulate with q_bucket = scatter_kind::full");
        out.variance = bucket_variance(m, model);
      }
    }
    model.bucket.push_back(std::move(out));
  }
  return model;
}

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
