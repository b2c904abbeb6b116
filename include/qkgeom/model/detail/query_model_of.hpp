// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/model/query_model.hpp"

namespace qkgeom {

QKGEOM_INLINE std::uint64_t fingerprint(const query_model& m) {
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

namespace detail {

/// Returns the variances (n - 1) of (eps, coordinates 2..d) of a bucket in Householder coordinates; the variance of eps
/// is over all queries unless the covariance is `joint`.
QKGEOM_INLINE std::vector<double> bucket_variance(const row_moments& m, const query_model& model) {
  auto v = reflected_diagonal(model.reflector, m.xx, m.mean.size());
  if (model.covariance == covariance_kind::joint)
    v[0] += model.beta_pos * (model.beta_pos * m.tt - 2 * reflect(model.reflector, m.xt)[0]);
  v = dense::scaled(std::move(v), 1.0 / static_cast<double>(m.count - 1));
  if (model.covariance != covariance_kind::joint) v[0] = model.sigma2_pos;
  for (double& x : v) x = std::max(0.0, x);
  return v;
}

QKGEOM_INLINE std::vector<double> bucket_covariance(const row_moments& m, const query_model& model) {
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

QKGEOM_INLINE query_model model_of(const moments_ref& head, const query_model_options& options) {
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

QKGEOM_INLINE score_distribution scores_of(const query_model& model, index_t b, std::optional<index_t> window) {
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

}  // namespace qkgeom
