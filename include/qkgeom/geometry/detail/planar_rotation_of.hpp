// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/linalg/dense.hpp"

namespace qkgeom {

namespace detail {

QKGEOM_INLINE std::vector<double> normalised(std::vector<double> v, double smallest) {
  const double length = dense::norm(v);
  return dense::scaled(std::move(v), length > smallest ? 1.0 / length : 0.0);
}

QKGEOM_INLINE std::vector<double> without(std::vector<double> v, const std::vector<double>& a) {
  for (int pass = 0; pass < 2; ++pass) {
    const double part = dense::dot(v, a);  // before v is moved: compilers differ in the order of arguments
    v = dense::sum(std::move(v), a, -part);
  }
  return v;
}

inline std::vector<double> covariance(const row_moments& m) {
  return dense::scaled(m.xx, m.count > 1 ? 1.0 / static_cast<double>(m.count - 1) : 0.0);
}

QKGEOM_INLINE std::vector<double> separation_matrix(const row_moments& q, const row_moments& k) {
  auto c = dense::sum(covariance(q), covariance(k));
  const auto gap = dense::difference(q.mean, k.mean);
  dense::add_symmetric_product(c, gap, gap, 0.5);
  return c;
}

QKGEOM_INLINE std::vector<double> projected_off(std::vector<double> c, const std::vector<double>& a) {
  const auto ca = dense::multiply(c, a);
  dense::add_symmetric_product(c, a, ca, -1.0);
  dense::add_symmetric_product(c, a, a, 0.5 * dense::dot(a, ca));
  return c;
}

inline axis_projection projection_of(const row_moments& m, const std::vector<double>& a, const std::vector<double>& b,
                                     double context_length) {
  axis_projection p;
  const double xt = dense::dot(m.xt, a), xx = dense::quadratic(m.xx, a), all = dense::dot(m.xt, m.xt);
  p.r = xx > rounding_floor(m) ? correlation(xt, xx, m.tt) : 0.0;
  p.alpha = slope(xt, m.tt);
  p.alpha_context = p.alpha * context_length;
  p.mu = dense::dot(m.mean, a);
  p.mu_b = dense::dot(m.mean, b);
  p.cos_a_beta = all > 0 ? xt / std::sqrt(all) : 0.0;
  p.drift_off_a = all > 0 && dense::norm(a) > 0 ? std::max(0.0, 1.0 - p.cos_a_beta * p.cos_a_beta) : 0.0;
  return p;
}

QKGEOM_INLINE rotation_result rotation_of(const row_moments& q, const row_moments& k, const row_moments& pooled,
                                          std::vector<double> a, std::vector<double> b, double context_length,
                                          double score_scale) {
  rotation_result r;
  r.score_scale = score_scale > 0 ? score_scale : 1 / std::sqrt(static_cast<double>(q.dim()));
  r.q = projection_of(q, a, b, context_length);
  r.k = projection_of(k, a, b, context_length);
  r.bias.strength = r.q.mu * r.k.alpha;
  r.bias.context = r.bias.strength * context_length;
  r.bias.strength_logits = r.bias.strength * r.score_scale;
  r.bias.context_logits = r.bias.context * r.score_scale;
  r.bias.alpha_k_b = slope(dense::dot(k.xt, b), k.tt);
  r.bias.alpha_k_b_context = r.bias.alpha_k_b * context_length;
  r.bias.strength_b = r.q.mu_b * r.bias.alpha_k_b;
  r.bias.context_b = r.bias.strength_b * context_length;
  set_score_sd(r, q, dense::scaled(covariance(k), 2.0));
  const auto d = static_cast<std::size_t>(q.dim());
  if (const double total = dense::trace(pooled.xx, d); total > 0) {
    r.var_frac_a = dense::quadratic(pooled.xx, a) / total;
    r.var_frac_b = dense::quadratic(pooled.xx, b) / total;
    r.plane_var_fraction = r.var_frac_a + r.var_frac_b;
  }
  const double within_q = dense::quadratic(covariance(q), b), within_k = dense::quadratic(covariance(k), b);
  r.content_var_b = 0.5 * (within_q + within_k);
  const auto c = separation_matrix(q, k);
  if (const double total = dense::trace(c, d); total > 0) r.separation_strength = dense::quadratic(c, b) / total;
  const auto left = without(pooled.xt, a);
  const auto direction = normalised(left, 0.0);
  r.residual_pos_r = std::abs(correlation(dense::norm(left), dense::quadratic(pooled.xx, direction), pooled.tt));
  if (dense::norm(a) == 0) r.residual_pos_r = 0;
  r.drift_axis = std::move(a);
  r.separation_axis = std::move(b);
  return r;
}

}  // namespace detail

QKGEOM_INLINE void set_score_sd(rotation_result& r, const row_moments& q, const std::vector<double>& differences) {
  const double mean_query = dense::quadratic(differences, q.mean);
  const double drawn = q.count > 1 ? dense::dot(q.xx, differences) / static_cast<double>(q.count - 1) : 0.0;
  r.score_sd_mean_query = std::sqrt(std::max(0.0, mean_query));
  r.score_sd = std::sqrt(std::max(0.0, mean_query + drawn));
  r.score_sd_logits = r.score_sd * r.score_scale;
  r.bias.context_in_sd = r.score_sd > 0 ? r.bias.context / r.score_sd : 0.0;
  r.bias.context_in_sd_mean_query = r.score_sd_mean_query > 0 ? r.bias.context / r.score_sd_mean_query : 0.0;
}

}  // namespace qkgeom
