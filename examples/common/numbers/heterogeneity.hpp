// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/numbers/head_values.hpp"

namespace qkgeom::examples {

/// Heads of a plasticity above `led_by_content` count as led by content, those below `locked_to_position` as locked to
/// position.
inline constexpr double led_by_content = 0.8, locked_to_position = 0.3;

/// How the heads of a group differ in one region of the context (section 6.2.3).
struct head_spread {
  double start = 0, end = 0;                   ///< tokens
  index_t heads = 0;                           ///< that have a value there
  head_estimate mean, deviation;               ///< over heads; deviation n - 1
  head_estimate quartile1, median, quartile3;  ///< without `head_error`
  head_estimate share_high, share_low;         ///< of heads above and below these limits
  head_estimate bimodality;                    ///< coefficient, see `shape_of`; null below four heads
};

/// Head heterogeneity of one group of heads.
struct heterogeneity_result {
  std::string group;
  std::vector<head_spread> buckets;  ///< (query buckets)
  head_spread first20, last20;       ///< heads' means over the first and the last 20 % of the context
  head_estimate convergence;         ///< deviation in the last 20 % over that in the first; below 1: heads grow alike
};

/// All heads, then those of RoPE and of NoPE layers apart where the model has both.
std::vector<heterogeneity_result> heterogeneity(const model_report& report);

/// heterogeneity.csv: a row per group of heads and region of the context. `convergence` stands in that of the last 20
/// %.
qkgeom::table heterogeneity_table(const std::vector<heterogeneity_result>& results);

}  // namespace qkgeom::examples
