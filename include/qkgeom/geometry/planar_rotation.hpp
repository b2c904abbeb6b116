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

/// How axis b is found: as the difference of the centroids made orthogonal to a (4.5), or as the top eigenvector of C =
/// Cov_Q + Cov_K + (mu_Q - mu_K)(mu_Q - mu_K)' in the space orthogonal to a.
enum class separation_axis_kind { centroid, top_eigenvector };

struct rotation_options {
  separation_axis_kind separation = separation_axis_kind::centroid;
  index_t context_length = 0;  ///< L of the slopes per context, tokens; 0: the last bucket edge of the moments
  double score_scale = 0;      ///< logits per unit of q.k, the softmax's factor; 0: 1/sqrt(d)
};

/// Projections of one side of a head, its queries or its keys, on axis a; `mu_b` on axis b.
struct axis_projection {
  double r = 0;              ///< correlation with position
  double alpha = 0;          ///< regression slope on position, per token
  double alpha_context = 0;  ///< alpha times L: the slope per context
  double mu = 0, mu_b = 0;   ///< means
  double cos_a_beta = 0;     ///< cosine of a and this side's slope vector Cov(x, t)
  double drift_off_a = 0;    ///< share of ||Cov(x, t)||^2 off a
};

/// The score that position adds to a head along axis a (4.6) and along b: the mean projection of the queries times the
/// slope of the keys, per token or per context of L tokens.
struct position_bias {
  double strength = 0, context = 0;             ///< mu_q_a alpha_k; positive: later keys score higher (recency)
  double alpha_k_b = 0, alpha_k_b_context = 0;  ///< slope of the keys' projection on b
  double strength_b = 0, context_b = 0;         ///< mu_q_b alpha_k_b, the bias along b
  double context_in_sd = 0, context_in_sd_mean_query = 0;  ///< `context` over the two `score_sd`; 0 if they are 0
  double strength_logits = 0, context_logits = 0;          ///< `strength` and `context` times `score_scale`
};

/// The plane {a, b} of a head (section 4.3).
struct rotation_result {
  std::vector<double> drift_axis;  ///< a (d): Cov(x, t) of the pooled rows, normalised (4.3); 0 if there is no drift
  std::vector<double> separation_axis;  ///< b (d), orthogonal to a; 0 if the centroids are equal
  axis_projection q, k;
  position_bias bias;
  double var_frac_a = 0, var_frac_b = 0, plane_var_fraction = 0;  ///< shares of the pooled variance
  double separation_strength = 0;                                 ///< b'Cb / tr C, C as in `separation_axis_kind`
  double content_var_b = 0;        ///< mean of the two within-side variances on b (n - 1)
  double residual_pos_r = 0;       ///< largest |correlation| with t orthogonal to a: 0 but for rounding
  double score_sd = 0;             ///< root mean square of q.(k_i - k_j) over pairs of keys, see `set_score_sd`
  double score_sd_mean_query = 0;  ///< the same with q = mu_Q
  double score_scale = 0;          ///< logits per unit of q.k
  double score_sd_logits = 0;      ///< `score_sd` times `score_scale`
};

/// Writes into `r` the spread of score differences q.(k_i - k_j), and the bias in units of it. `differences`, D (d, d),
/// is the mean of (k_i - k_j)(k_i - k_j)' over pairs of keys. The thesis does not say which queries and keys a score
/// difference varies over. **Decided**: q is drawn independently of the two keys, and every pair of keys of one
/// document counts once, at any distance: score_sd^2 = tr((Cov_Q + mu_Q mu_Q') D). `score_sd_mean_query` holds the
/// query at its mean, mu_Q' D mu_Q, as `bias.strength` does. Both orders of a pair count, so the mean difference is 0.
/// Moments that do not know documents give D as twice the pooled Cov_K, which also holds the differences between
/// documents; `block_moments` gives D exactly.
inline void set_score_sd(rotation_result& r, const row_moments& q, const std::vector<double>& differences) {
  const double mean_query = dense::quadratic(differences, q.mean);
  const double drawn = q.count > 1 ? dense::dot(q.xx, differences) / static_cast<double>(q.count - 1) : 0.0;
  r.score_sd_mean_query = std::sqrt(std::max(0.0, mean_query));
  r.score_sd = std::sqrt(std::max(0.0, mean_query + drawn));
  r.score_sd_logits = r.score_sd * r.score_scale;
  r.bias.context_in_sd = r.score_sd > 0 ? r.bias.context / r.score_sd : 0.0;
  r.bias.context_in_sd_mean_query = r.score_sd_mean_query > 0 ? r.bias.context / r.score_sd_mean_query : 0.0;
}

/// Computes drift axis, separation axis and their metrics of each head from its moments: `head_moments` give one
/// result, `layer_moments` a vector, one per query head. Equations 4.3 to 4.6. Throws if a side has no rows.
template <context Context, class Moments>
auto planar_rotation(Context& ctx, const Moments& moments, const rotation_options& options = {});

namespace detail {

/// Returns v at length 1, or 0 if it is no longer than `smallest`.
inline std::vector<double> normalised(std::vector<double> v, double smallest) {
  const double length = dense::norm(v);
  return dense::scaled(std::move(v), length > smallest ? 1.0 / length : 0.0);
}

/// Removes from v its part along the unit vector a, twice, so that the rest is orthogonal up to rounding.
inline std::vector<double> without(std::vector<double> v, const std::vector<double>& a) {
  for (int pass = 0; pass < 2; ++pass) {
    const double part = dense::dot(v, a);  // before v is moved: compilers differ in the order of arguments
    v = dense::sum(std::move(v), a, -part);
  }
  return v;
}

inline std::vector<double> covariance(const row_moments& m) {
  return dense::scaled(m.xx, m.count > 1 ? 1.0 / static_cast<double>(m.count - 1) : 0.0);
}

/// Returns C = Cov_Q + Cov_K + (mu_Q - mu_K)(mu_Q - mu_K)'.
inline std::vector<double> separation_matrix(const row_moments& q, const row_moments& k) {
  auto c = dense::sum(covariance(q), covariance(k));
  const auto gap = dense::difference(q.mean, k.mean);
  dense::add_symmetric_product(c, gap, gap, 0.5);
  return c;
}

/// Returns (I - aa') C (I - aa').
inline std::vector<double> projected_off(std::vector<double> c, const std::vector<double>& a) {
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

inline rotation_result rotation_of(const row_moments& q, const row_moments& k, const row_moments& pooled,
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
