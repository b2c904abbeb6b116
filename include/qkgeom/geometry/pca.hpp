// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/linalg/products.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Class of a head by the correlations r_q, r_k of PCA component 0 with position (section 4.2).
enum class head_class { position_dominated, q_positional, k_positional, content_focused, mixed };

inline constexpr std::array<head_class, 5> all_head_classes{head_class::position_dominated, head_class::q_positional,
                                                            head_class::k_positional, head_class::content_focused,
                                                            head_class::mixed};

constexpr std::string_view name_of(head_class c) {
  constexpr std::string_view names[] = {"position_dominated", "q_positional", "k_positional", "content_focused",
                                        "mixed"};
  return names[static_cast<int>(c)];
}

struct class_thresholds {
  double low = 0.3;
  double high = 0.7;
};

/// Classifies a head: position_dominated: |r_q| and |r_k| above `high`; q_positional: only |r_q|; k_positional: |r_k|
/// above `high`, |r_q| below `low`; content_focused: both below `low`; mixed: all others. The thesis counts
/// k_positional as mixed. Throws unless low <= high.
inline head_class classify(double r_q, double r_k, const class_thresholds& thresholds = {}) {
  require(thresholds.low <= thresholds.high, "head classes: the threshold low (", thresholds.low,
          ") must not be above high (", thresholds.high, ")");
  const double q = std::abs(r_q), k = std::abs(r_k);
  if (q > thresholds.high) return k > thresholds.high ? head_class::position_dominated : head_class::q_positional;
  if (k > thresholds.high && q < thresholds.low) return head_class::k_positional;
  if (q < thresholds.low && k < thresholds.low) return head_class::content_focused;
  return head_class::mixed;
}

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

namespace detail {

/// Returns the variance along a direction up to which it is only rounding.
inline double rounding_floor(const row_moments& m) {
  const auto d = m.mean.size();
  return static_cast<double>(d) * std::numeric_limits<double>::epsilon() * dense::trace(m.xx, d);
}

inline std::vector<double> correlations_with_position(const row_moments& side, const std::vector<double>& components) {
  const auto d = side.mean.size();
  const auto variance = linalg::quadratic_rows(side.xx, components, d);
  const double floor = rounding_floor(side);
  std::vector<double> r(d);
  for (std::size_t j = 0; j < d; ++j) {
    double xt = 0;
    for (std::size_t i = 0; i < d; ++i) xt += components[j * d + i] * side.xt[i];
    r[j] = variance[j] > floor ? correlation(xt, variance[j], side.tt) : 0.0;
  }
  return r;
}

inline double linear_share(const row_moments& side) {
  const double total = dense::trace(side.xx, side.mean.size());
  return total > 0 && side.tt > 0 ? dense::dot(side.xt, side.xt) / (side.tt * total) : 0.0;
}

/// Computes one head's PCA; `system` and `pooled` are the eigenvectors and moments of the pooled rows.
inline pca_result pca_of(const moments_ref& head, const row_moments& pooled, eigen_system system,
                         const pca_options& options) {
  const auto &q = head.q->total, &k = head.k->total;
  const std::size_t d = system.values.size();
  const double trace = dense::trace(pooled.xx, d), count = static_cast<double>(pooled.count);
  pca_result r;
  r.components = std::move(system.vectors);
  r.r_q = correlations_with_position(q, r.components);
  r.r_k = correlations_with_position(k, r.components);
  r.explained_variance.resize(d);
  for (std::size_t j = 0; j < d; ++j) {
    r.explained_variance[j] = trace > 0 ? std::max(0.0, system.values[j]) / trace : 0.0;
    if ((std::abs(r.r_q[j]) >= std::abs(r.r_k[j]) ? r.r_q[j] : r.r_k[j]) >= 0) continue;
    r.r_q[j] = -r.r_q[j];
    r.r_k[j] = -r.r_k[j];
    for (std::size_t i = 0; i < d; ++i) r.components[j * d + i] = -r.components[j * d + i];
  }
  for (std::size_t j = 0; j < std::min<std::size_t>(10, d); ++j) {
    r.q_component_share += r.explained_variance[j] * r.r_q[j] * r.r_q[j];
    r.k_component_share += r.explained_variance[j] * r.r_k[j] * r.r_k[j];
  }
  r.total_variance = count > 1 ? trace / (count - 1) : 0.0;
  r.q_linear_share = linear_share(q);
  r.k_linear_share = linear_share(k);
  r.head_class = classify(r.r_q[0], r.r_k[0], options.thresholds);
  return r;
}

}  // namespace detail

template <context Context, class Moments>
auto pca(Context& ctx, const Moments& moments, const pca_options& options) {
  const auto heads = heads_of(moments);
  std::vector<row_moments> pooled(heads.size());
  ctx.for_each(heads.size(), [&](index_t h) {
    const auto& head = heads[h];
    require(head.q->total.count > 0 && head.k->total.count > 0, "pca: a head needs at least one query and one key");
    pooled[h] = pooled_moments(head);
  });
  std::vector<const std::vector<double>*> scatters;
  for (const auto& p : pooled) scatters.push_back(&p.xx);
  auto systems = ctx.symmetric_eigen(scatters, pooled.empty() ? 0 : pooled[0].dim());
  std::vector<pca_result> results(heads.size());
  ctx.for_each(heads.size(),
               [&](index_t h) { results[h] = detail::pca_of(heads[h], pooled[h], std::move(systems[h]), options); });
  return shaped_like(moments, std::move(results));
}

}  // namespace qkgeom
