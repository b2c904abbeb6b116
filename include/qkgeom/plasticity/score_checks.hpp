// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/model/query_model.hpp"

namespace qkgeom {

struct score_check_options {
  index_t pairs = 64;                                ///< pairs of keys drawn per query bucket; all if there are no more
  index_t min_queries = 8;                           ///< buckets with fewer queries are omitted
  double alpha = 0.01;                               ///< level of the Kolmogorov-Smirnov tests
  query_position position = query_position::middle;  ///< tau, for the window of windowed layers
  std::uint64_t seed = 0;
};

/// Normality of the score differences q . (k_i - k_j) of single pairs of keys over the observed queries of a bucket,
/// which the pair formula (4.11) assumes: medians over pairs.
struct score_checks_result {
  normality_medians all;                  ///< over the pairs of all query buckets
  std::vector<normality_medians> bucket;  ///< (query buckets)
};

/// Checks the score differences of each query head of a layer on the query buckets that `buckets` defines over [0,
/// context_length) tokens (docs/mathematics.md, Query model). All heads share the pairs, of one document, before the
/// bucket and inside the window. Needs rows on the host. Throws if shapes do not fit.
template <context Context, class T, bucketing Buckets>
std::vector<score_checks_result> score_checks(Context& ctx, const layer_view<T, memory_space::host>& layer,
                                              const Buckets& buckets, index_t context_length,
                                              const score_check_options& options = {});

/// Does the same for one head.
template <context Context, class T, bucketing Buckets>
score_checks_result score_checks(Context& ctx, const head_view<T, memory_space::host>& head, const Buckets& buckets,
                                 index_t context_length, const score_check_options& options = {}) {
  return std::move(score_checks(ctx, as_layer(head), buckets, context_length, options).front());
}

}  // namespace qkgeom

#include "qkgeom/plasticity/detail/score_checks.hpp"
