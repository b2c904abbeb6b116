// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/numbers/head_values.hpp"

namespace qkgeom::examples {

/// Whether a profile dips, recovers and falls again (section 6.2.1), judged on its deciles, 0 to 9: the peak is the
/// largest in 50-90 % of the context, the dip the smallest before it from 30 % on, the end the smallest after it.
struct recovery_result {
  index_t heads = 0;
  std::array<head_estimate, 10> decile{};  ///< mean over heads
  int dip = -1, peak = -1, end = -1;       ///< deciles; -1 where the profile has none there
  head_estimate rise;                      ///< peak - dip
  head_estimate fall;                      ///< peak - end
  bool recovers = false;                   ///< rise and fall both exceed `errors` standard errors
};

/// Recovery in the mean profile of a group of heads, in its layers' mean profiles and in its heads' own.
struct group_recovery {
  std::string group;
  recovery_result mean;
  std::vector<std::pair<index_t, recovery_result>> layers;    ///< (layer, its mean profile)
  std::vector<std::pair<std::size_t, recovery_result>> each;  ///< (index into the report's heads, its own profile)

  index_t recovering_layers() const;
  index_t recovering_heads() const;
};

/// Recovery of profiles under the headline model: all heads, then RoPE and NoPE layers apart where the model has both.
/// A profile of fewer than three documents has no error and none recovers. `errors`: how many standard errors rise and
/// fall must have, of errors over many documents; more of fewer (Student's t).
std::vector<group_recovery> recovery(const model_report& report, double errors = 2);

/// recovery.csv: a row for the mean profile of each group of heads, of each layer and of each head.
qkgeom::table recovery_table(const model_report& report, const std::vector<group_recovery>& results);

}  // namespace qkgeom::examples
