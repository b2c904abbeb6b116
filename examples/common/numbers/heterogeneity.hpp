// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "examples/common/numbers/head_regions.hpp"

namespace qkgeom {

/// Thresholds of plasticity.
struct heterogeneity_options {
  double high = 0.8;  ///< heads above it count as led by content
  double low = 0.3;   ///< heads below it count as locked to position
};

/// How the heads of a group differ in one region of the context (section 6.2.3).
struct head_spread {
  double start = 0, end = 0;                   ///< tokens
  index_t heads = 0;                           ///< that have a value there
  head_estimate mean, deviation;               ///< over heads; deviation n - 1
  head_estimate quartile1, median, quartile3;  ///< without `head_error`
  head_estimate share_high, share_low;         ///< of heads above `high`, below `low`
  head_estimate bimodality;                    ///< coefficient, see `shape_of`; null below four heads
};

/// Head heterogeneity of one group of heads.
struct heterogeneity_result {
  std::string group;
  std::vector<head_spread> buckets;  ///< (query buckets)
  head_spread first20, last20;       ///< heads' means over the first and the last 20 % of the context
  head_estimate convergence;         ///< deviation in the last 20 % over that in the first; below 1: heads grow alike
};

/// The heterogeneity of the heads with these indices into the report's heads.
inline heterogeneity_result heterogeneity_of(const model_report& report, std::string group,
                                             const std::vector<std::size_t>& heads,
                                             const heterogeneity_options& options = {});

/// All heads, then those of RoPE and of NoPE layers apart where the model has both.
inline std::vector<heterogeneity_result> heterogeneity(const model_report& report,
                                                       const heterogeneity_options& options = {}) {
  std::vector<heterogeneity_result> results;
  for (const auto& [name, heads] : head_groups(report.heads))
    results.push_back(heterogeneity_of(report, name, heads, options));
  return results;
}

/// heterogeneity.csv: a row per group of heads and region of the context (`bucket`: a query bucket; `first_20pct` and
/// `last_20pct`: heads' means over them); start and end in tokens. `convergence` stands in the row of the last 20 %.
/// `_error` is the jackknife over documents, `_head_error` that over heads.
inline void write_heterogeneity_csv(const std::filesystem::path& path,
                                    const std::vector<heterogeneity_result>& results);

}  // namespace qkgeom

#include "examples/common/numbers/heterogeneity.hpp"
