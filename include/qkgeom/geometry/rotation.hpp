// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// How axis b is found: the centroid difference made orthogonal to a (4.5), or the top eigenvector of the
/// between-and-within covariance orthogonal to a.
enum class separation_axis_kind { centroid, top_eigenvector };

struct rotation_options {
  separation_axis_kind separation = separation_axis_kind::centroid;
  index_t context_length = 0;  ///< L of the slopes per context, tokens; 0: the last bucket edge of the moments
};

/// The plane {a, b} of a head (section 4.3). Slopes are per token, those named `_context` per context: times L.
struct rotation_result {
  std::vector<double> drift_axis;  ///< a (d): Cov(x, t) of the pooled rows, normalised (4.3); 0 if there is no drift
  std::vector<double> separation_axis;  ///< b (d), orthogonal to a; 0 if the centroids are equal
  double r_q_a = 0, r_k_a = 0;          ///< correlation of the projection on a with position
  double alpha_q = 0, alpha_k = 0;      ///< regression slope of the projection on a, a token
  double mu_q_a = 0, mu_k_a = 0;        ///< mean projection on a
  double mu_q_b = 0, mu_k_b = 0;        ///< mean projection on b
  double bias_strength = 0;             ///< mu_q_a alpha_k (4.6); positive: later keys score higher (recency)
  double alpha_k_b = 0;                 ///< slope of the keys' projection on b
  double bias_strength_b = 0;           ///< mu_q_b alpha_k_b: what b adds
  double var_frac_a = 0, var_frac_b = 0, plane_var_fraction = 0;  ///< shares of the pooled variance
  double separation_strength = 0;               ///< b'Cb / tr C, C = Cov_Q + Cov_K + (mu_Q - mu_K)(mu_Q - mu_K)'
  double content_var_b = 0;                     ///< mean of the two within-side variances on b (n - 1)
  double cos_a_beta_q = 0, cos_a_beta_k = 0;    ///< cosine of a and each side's own slope vector
  double q_drift_off_a = 0, k_drift_off_a = 0;  ///< share of each side's ||Cov(x, t)||^2 off a
  double residual_pos_r = 0;  ///< |correlation| of t with the pooled covariance left orthogonal to a: rounding
  double alpha_q_context = 0, alpha_k_context = 0, bias_context = 0, alpha_k_b_context = 0, bias_b_context = 0;
  double score_sd = 0;  ///< of q.(k_i - k_j), k_i and k_j two keys: root of its mean square, see `set_score_sd`
  double score_sd_mean_query = 0;                                    ///< the same with q = mu_Q
  double bias_context_in_sd = 0, bias_context_in_sd_mean_query = 0;  ///< bias_context over the two; 0 if they are 0
};

/// Puts the spread of score differences and the bias in units of it into `r`. `differences` (d, d) is the mean of
/// (k_i - k_j)(k_i - k_j)' over pairs of keys. The source does not say over what a score difference varies.
/// **Decided**: over queries and keys drawn apart, all pairs of keys of one document counting once, whatever their
/// positions: score_sd^2 = tr((Cov_Q + mu_Q mu_Q') D). Beside it the mean query's alone, mu_Q' D mu_Q, which is what
/// bias_strength speaks of. Both orders of a pair count, so the mean is 0. From moments that do not know documents D is
/// twice the pooled Cov_K, which holds the differences between documents too; `block_moments` has the exact D.
inline void set_score_sd(rotation_result& r, const row_moments& q, const std::vector<double>& differences) {
  const double mean_query = dense::quadratic(differences, q.mean);
  const double drawn = q.count > 1 ? dense::dot(q.xx, differences) / static_cast<double>(q.count - 1) : 0.0;
  r.score_sd_mean_query = std::sqrt(std::max(0.0, mean_query));
  r.score_sd = std::sqrt(std::max(0.0, mean_query + drawn));
  r.bias_context_in_sd = r.score_sd > 0 ? r.bias_context / r.score_sd : 0.0;
  r.bias_context_in_sd_mean_query = r.score_sd_mean_query > 0 ? r.bias_context / r.score_sd_mean_query : 0.0;
}

namespace detail {

inline std::vector<double> normalised(std::vector<double> v, double smallest) {
  const double length = dense::norm(v);
  return dense::scaled(std::move(v), length > smallest ? 1.0 / length : 0.0);
}

/// v without its part along the unit vector a. Twice, so that the rest is orthogonal to rounding.
inline std::vector<double> without(std::vector<double> v, const std::vector<double>& a) {
  for (int pass = 0; pass < 2; ++pass) v = dense::sum(std::move(v), a, -dense::dot(v, a));
  return v;
}

inline std::vector<double> covariance(const row_moments& m) {
  return dense::scaled(m.xx, m.count > 1 ? 1.0 / static_cast<double>(m.count - 1) : 0.0);
}

/// C = Cov_Q + Cov_K + (mu_Q - mu_K)(mu_Q - mu_K)'.
inline std::vector<double> separation_matrix(const row_moments& q, const row_moments& k) {
  auto c = dense::sum(covariance(q), covariance(k));
  const auto gap = dense::difference(q.mean, k.mean);
  dense::add_symmetric_product(c, gap, gap, 0.5);
  return c;
}

/// (I - aa') C (I - aa').
inline std::vector<double> projected_off(std::vector<double> c, const std::vector<double>& a) {
  const auto ca = dense::multiply(c, a);
  dense::add_symmetric_product(c, a, ca, -1.0);
  dense::add_symmetric_product(c, a, a, 0.5 * dense::dot(a, ca));
  return c;
}

inline void side_on_axis(const row_moments& m, const std::vector<double>& a, double& r, double& alpha, double& mu,
                         double& cosine, double& off) {
  const double xt = dense::dot(m.xt, a), xx = dense::quadratic(m.xx, a), all = dense::dot(m.xt, m.xt);
  r = xx > rounding_floor(m) ? correlation(xt, xx, m.tt) : 0.0;
  alpha = slope(xt, m.tt);
  mu = dense::dot(m.mean, a);
  cosine = all > 0 ? xt / std::sqrt(all) : 0.0;
  off = all > 0 && dense::norm(a) > 0 ? std::max(0.0, 1.0 - cosine * cosine) : 0.0;
}

inline rotation_result rotation_of(const row_moments& q, const row_moments& k, const row_moments& pooled,
                                   std::vector<double> a, std::vector<double> b, double context_length) {
  rotation_result r;
  side_on_axis(q, a, r.r_q_a, r.alpha_q, r.mu_q_a, r.cos_a_beta_q, r.q_drift_off_a);
  side_on_axis(k, a, r.r_k_a, r.alpha_k, r.mu_k_a, r.cos_a_beta_k, r.k_drift_off_a);
  r.mu_q_b = dense::dot(q.mean, b);
  r.mu_k_b = dense::dot(k.mean, b);
  r.bias_strength = r.mu_q_a * r.alpha_k;
  r.alpha_k_b = slope(dense::dot(k.xt, b), k.tt);
  r.bias_strength_b = r.mu_q_b * r.alpha_k_b;
  r.alpha_q_context = r.alpha_q * context_length;
  r.alpha_k_context = r.alpha_k * context_length;
  r.bias_context = r.bias_strength * context_length;
  r.alpha_k_b_context = r.alpha_k_b * context_length;
  r.bias_b_context = r.bias_strength_b * context_length;
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

/// Drift axis, separation axis and their metrics for each head, from moments alone: one result for `head_moments`, a
/// vector (query heads) for `layer_moments`. Equations 4.3 to 4.6. Throws if a side has no rows.
template <context Context, class Moments>
auto planar_rotation(Context& ctx, const Moments& moments, const rotation_options& options = {}) {
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
    // Below this the covariance with position is rounding of the sums, not drift.
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
      // Of an eigenvector beside a all is left; where a alone has variance, nothing but rounding.
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
                                     static_cast<double>(length));
  });
  return shaped_like(moments, std::move(results));
}

}  // namespace qkgeom
