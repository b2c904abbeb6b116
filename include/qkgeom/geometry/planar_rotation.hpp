// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/context/context.hpp"
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
QKGEOM_INLINE void set_score_sd(rotation_result& r, const row_moments& q, const std::vector<double>& differences);

/// Computes drift axis, separation axis and their metrics of each head from its moments: `head_moments` give one
/// result, `layer_moments` a vector, one per query head. Equations 4.3 to 4.6. Throws if a side has no rows.
template <context Context, class Moments>
auto planar_rotation(Context& ctx, const Moments& moments, const rotation_options& options = {});

}  // namespace qkgeom

#include "qkgeom/geometry/detail/planar_rotation.hpp"
