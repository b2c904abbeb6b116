// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// Plasticity of a group of heads under the headline model: means over heads, errors over documents.
struct group_summary : profile_summary {
  std::string name;
};

/// Averages the summaries of some heads' profiles, with a jackknife that leaves a document out of all heads at once;
/// `pairs` is their sum. `context_length` in tokens.
profile_summary mean_over_heads(const std::vector<const plasticity_profile_result*>& profiles, index_t context_length);

/// Summarizes the headline profiles of the heads of a report with these indices.
profile_summary summarize_heads(const model_report& report, const std::vector<std::size_t>& heads);

/// Summarizes each of `head_groups`: all heads, then RoPE and NoPE layers apart if the model has both.
std::vector<group_summary> summarize_model(const model_report& report);

/// Errors that drawing pairs adds to the means of `summarize` over a `sampled` profile: 0 if all pairs were used.
struct summary_sampling_errors {
  double overall = 0, first20 = 0, last20 = 0, drop = 0;
};

/// The key of a pair that the model lets win, and whether the bias of the rotation agrees (4.6: a positive bias
/// strength favours later keys).
struct later_key_summary {
  double bias_strength = 0;
  estimate later_wins;           ///< mean P(later key wins) over the query buckets, weighted as in `summarize`
  estimate favoured_wins;        ///< the same for the key that the bias favours; NaN without a bias
  estimate agreeing_share;       ///< share of the query buckets, by weight, in which that is above 1/2
  std::optional<bool> agrees{};  ///< whether `favoured_wins` is above 1/2
};

/// Computes the sampling errors of a profile; `context_length` in tokens.
summary_sampling_errors sampling_errors(const plasticity_profile_result& p, index_t context_length,
                                        bucket_weight by = bucket_weight::queries);

/// Summarizes a profile with terms. Throws `error` if it has no terms.
later_key_summary later_keys(const plasticity_profile_result& profile, double bias_strength, index_t context_length,
                             bucket_weight by = bucket_weight::queries);

/// Summarizes a head's headline profile. Throws `error` if it has no terms.
later_key_summary later_keys(const head_report& head, index_t context_length);

}  // namespace qkgeom
