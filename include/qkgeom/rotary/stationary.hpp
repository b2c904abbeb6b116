// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Computes the moments of a layer at any context from the moments of its rows before the rotary embedding, if those
/// rows do not depend on position: at position t the mean is R(t) mu and the covariance R(t) S R(t)'. One token stands
/// at each position of `buckets`; sums over positions have a closed form (docs/mathematics.md, Stationary rows), so
/// nothing is drawn. Reads only the totals of `before`; an empty `rope` is a NoPE layer. Costs O(d^2) per head and
/// bucket. Throws `error` if a side has fewer than 2 rows or the embedding rotates more coordinates than heads have.
inline layer_moments stationary_moments(const layer_moments& before, const std::optional<captured_rope>& rope,
                                        const bucket_edges& buckets);

struct stationary_options {
  query_model_options model{.covariance = covariance_kind::joint};
  std::optional<index_t> window{};  ///< of the layer, tokens
  index_t draws = 16;               ///< independent sets of keys
  index_t keys = 128;               ///< keys per set, spread over the context
  std::uint64_t seed = 0;
};

/// Computes profiles of a layer's query heads over `buckets` under the query models of `stationary_moments`, over pairs
/// of keys drawn from Gaussians of the keys' mean and covariance, rotated to their positions. Each set of keys is a
/// document of the result, so its standard errors measure only the drawing, not how far keys are from Gaussian.
template <context Context>
std::vector<plasticity_profile_result> stationary_profile(Context& ctx, const layer_moments& before,
                                                          const std::optional<captured_rope>& rope,
                                                          const bucket_edges& buckets,
                                                          const stationary_options& options = {});

/// Returns E[q.k] of an independent query and key at a distance in tokens, with means `q`, `k` (d) before the rotation:
/// sum over planes of |q_p||k_p| cos(distance w_p + angle from k_p to q_p), plus the coordinates outside all planes.
inline double mean_score(const std::vector<double>& q, const std::vector<double>& k,
                         const std::optional<captured_rope>& rope, double distance);

}  // namespace qkgeom

#include "qkgeom/rotary/detail/stationary.hpp"
