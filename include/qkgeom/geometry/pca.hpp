// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/geometry/head_class.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

struct pca_options {
  class_thresholds thresholds{};
};

/// PCA of the pooled queries and keys of a head (section 4.2); components by descending variance.
struct pca_result {
  std::vector<double> explained_variance;  ///< (d) lambda_j / sum lambda
  std::vector<double> r_q, r_k;            ///< (d) Pearson correlation of q . v_j, k . v_j with position
  std::vector<double> components;  ///< (d, d) row j is v_j, signed so that the larger of |r_q|, |r_k| is positive
  double total_variance = 0;       ///< trace of the pooled covariance (n - 1)
  double q_linear_share = 0;       ///< ||Cov(q, t)||^2 / (Var(t) tr Cov(q)): share of the variance linear in position
  double k_linear_share = 0;
  double q_component_share = 0;  ///< variant: sum of explained_variance_j r_j^2 over the first 10 components
  double k_component_share = 0;
  qkgeom::head_class head_class = qkgeom::head_class::mixed;
};

/// Computes the PCA of the pooled queries and keys of each head from `head_moments` (returns a pca_result) or
/// `layer_moments` (a vector, one per query head). Throws if a side has no rows. Section 4.2; docs/mathematics.md, PCA.
template <context Context, class Moments>
auto pca(Context& ctx, const Moments& moments, const pca_options& options = {});

}  // namespace qkgeom

#include "qkgeom/geometry/detail/pca.hpp"
