// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/rotary/turn.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Moments of a layer at any context, from moments of its rows before the rotary embedding, if those do not depend on
/// position: at position t the mean is R(t) mu and the covariance R(t) S R(t)'. One token stands at each position of
/// `buckets`; sums over positions are closed (docs/mathematics.md, Stationary rows), so nothing is drawn. `before`
/// needs the totals of both sides alone; `rope` none: a NoPE layer. Costs O(d^2) per head and bucket. Throws `error` if
/// a side has fewer than 2 rows, or if the embedding turns more coordinates than heads have.
inline layer_moments stationary_moments(const layer_moments& before, const std::optional<captured_rope>& rope,
                                        const bucket_edges& buckets);

struct stationary_options {
  query_model_options model{.covariance = covariance_kind::joint};
  std::optional<index_t> window{};  ///< of the layer, tokens
  index_t draws = 16;               ///< independent sets of keys
  index_t keys = 128;               ///< of a set, spread over the context
  std::uint64_t seed = 0;
};

/// Profiles of a layer's query heads over `buckets` under the query models of `stationary_moments`, over pairs of keys
/// drawn from Gaussians of the keys' mean and covariance, turned to their positions. Each set of keys is a document of
/// the result, so its standard errors are those of the drawing. Keys that are not Gaussian make a difference that these
/// errors do not hold.
template <context Context>
std::vector<plasticity_profile_result> stationary_profile(Context& ctx, const layer_moments& before,
                                                          const std::optional<captured_rope>& rope,
                                                          const bucket_edges& buckets,
                                                          const stationary_options& options = {});

/// E[q.k] of a query and a key some tokens before it, whose means before the rotation are `q` and `k` (d), if they are
/// independent: sum over planes of |q_p||k_p| cos(distance w_p + angle from k_p to q_p), plus what is not turned.
inline double mean_score(const std::vector<double>& q, const std::vector<double>& k,
                         const std::optional<captured_rope>& rope, double distance);

}  // namespace qkgeom

#include "qkgeom/rotary/detail/stationary.hpp"
