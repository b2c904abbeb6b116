// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

struct decay_options {
  index_t max_pairs = 8192;  ///< pairs of keys per layer; if there are more, about this many are drawn
  std::uint64_t seed = 0;
  query_position position = query_position::middle;  ///< tau of the models of `check_decay`
};

/// Quantiles of a number over pairs; NaN without pairs.
struct decay_spread {
  double p10 = std::numeric_limits<double>::quiet_NaN();
  double median = std::numeric_limits<double>::quiet_NaN();
  double p90 = std::numeric_limits<double>::quiet_NaN();
};

/// Plasticity of one query bucket and its bound (A.5) at t = tau: means over pairs, with errors over documents.
struct decay_bucket {
  index_t start = 0, end = 0;  ///< tokens
  double tau = 0;              ///< tokens
  index_t pairs = 0;           ///< drawn pairs that the bucket admits
  estimate plasticity;         ///< AP_t
  estimate bound;              ///< mean(min(1, exp(-gamma^2 t^2 / 8)))
  estimate promised;           ///< mean bound; 1 for pairs with t < T_0, which the theorem does not bound
  estimate past;               ///< share of pairs with t >= T_0
  estimate broken;             ///< share of pairs with t >= T_0 and a plasticity above exp(-gamma^2 t^2 / 8)
};

/// The decay theorem (4.4, A.1) on one head: z(t) = gamma t + z_0, gamma = delta_1 beta_pos / sqrt v, under the model
/// of a pair's first bucket; for t >= T_0 = 2 |z_0| / |gamma| it bounds plasticity by exp(-gamma^2 t^2 / 8). Key i of a
/// pair is the earlier one, and delta = H(k_i - k_j).
struct decay_result {
  std::string covariance;              ///< label of the model
  double alpha_pos = 0, beta_pos = 0;  ///< of the query model; the theorem needs beta_pos > 0
  index_t pairs = 0;                   ///< pairs drawn
  double all_pairs = 0;                ///< pairs that some bucket admits
  decay_spread gamma, abs_gamma;       ///< per token, over pairs with gamma != 0
  decay_spread z_0, t_0;               ///< z at t = 0; T_0 in tokens; over the same pairs
  decay_spread variance_slope;         ///< slope of v over t, divided by the mean of v, per token; the theorem needs 0
  estimate variance_slope_mean;        ///< mean slope of v over t, per token
  estimate pi_0;                       ///< share of pairs with delta_1 = 0
  estimate ap_infinity;                ///< pi_0 E[PP | delta_1 = 0] (4.15, A.9)
  estimate past, broken;               ///< as in `decay_bucket`, over all pairs and their buckets
  std::vector<decay_bucket> buckets;
};

/// The theorem under two query models.
struct decay_check {
  decay_result full;    ///< covariance `full`, one per bucket
  decay_result pooled;  ///< covariance `full`, one for all buckets (`with_pooled_covariance`)
};

/// Checks the decay theorem on each head of a layer (docs/mathematics.md, Decay theorem); `moments` are the layer's,
/// with the covariance of each query bucket. Needs rows on the host. Throws if the moments do not fit the layer.
template <context Context, class T>
std::vector<decay_check> check_decay(Context& ctx, const layer_moments& moments,
                                     const layer_view<T, memory_space::host>& layer, const decay_options& options = {});

/// Does the same for one head.
template <context Context, class T>
decay_check check_decay(Context& ctx, const head_moments& moments, const head_view<T, memory_space::host>& head,
                        const decay_options& options = {}) {
  const layer_moments layer{moments.buckets, {moments.q}, {moments.k}, {0}};
  return std::move(check_decay(ctx, layer, as_layer(head), options).front());
}

/// Checks the decay theorem on each head of a layer under query models of these heads, named by `label`, over pairs of
/// keys of one document. Costs O(pairs x buckets x d^2). Needs host rows. Throws if the models do not fit the layer, or
/// a key is not finite.
template <context Context, class T>
std::vector<decay_result> decay_of(Context& ctx, const std::vector<query_model>& models,
                                   const layer_view<T, memory_space::host>& layer, const std::string& label,
                                   const decay_options& options = {});

}  // namespace qkgeom

#include "qkgeom/plasticity/detail/decay.hpp"
