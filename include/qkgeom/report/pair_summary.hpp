// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// Errors that drawing pairs adds to the means of `summarize` over a `sampled` profile: 0 where all pairs were used.
struct summary_sampling_errors {
  double overall = 0, first20 = 0, last20 = 0, drop = 0;
};

/// Which key of a pair the model lets win, and whether the bias of the rotation agrees (4.6: a positive bias strength
/// favours later keys).
struct later_key_summary {
  double bias_strength = 0;
  estimate later_wins;           ///< mean P(later key wins) over the query buckets, weighted as in `summarize`
  estimate favoured_wins;        ///< the same of the key that the bias favours; null without a bias
  estimate agreeing_share;       ///< share of the query buckets, by weight, where that is above 1/2
  std::optional<bool> agrees{};  ///< whether `favoured_wins` is above 1/2
};

/// `context_length` in tokens.
QKGEOM_INLINE summary_sampling_errors sampling_errors(const plasticity_profile_result& p, index_t context_length,
                                                      bucket_weight by = bucket_weight::queries);

/// From a profile with terms. Throws `error` if it has none.
QKGEOM_INLINE later_key_summary later_keys(const plasticity_profile_result& profile, double bias_strength,
                                           index_t context_length, bucket_weight by = bucket_weight::queries);

/// From a head's headline profile. Throws `error` if it has none.
inline later_key_summary later_keys(const head_report& head, index_t context_length) {
  require(!head.profiles.empty(), "later_keys: layer ", head.layer, " head ", head.q_head, " has no profile");
  return later_keys(head.profiles[0], head.rotation.bias.strength, context_length);
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/report/detail/pair_summary.hpp"
#endif
