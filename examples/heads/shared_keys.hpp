// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "examples/common/numbers/head_regions.hpp"

namespace qkgeom {

/// How alike the profiles of two heads of a layer are, by whether they share a key head: means over pairs of heads.
struct shared_key_likeness {
  std::string group;
  index_t pairs_within = 0, pairs_between = 0;
  /// Pearson correlation of two profiles over the query buckets: of heads that share a key head, of heads that do not,
  /// and the former less the latter.
  head_estimate correlation_within, correlation_between, correlation_difference;
  /// The same of the mean |difference| of two profiles.
  head_estimate distance_within, distance_between, distance_difference;
};

/// The likeness of the profiles of the heads with these indices into the report's heads; a mean without pairs is NaN.
inline shared_key_likeness shared_key_likeness_of(const model_report& report, std::string group,
                                                  const std::vector<std::size_t>& heads);

/// All heads, then those of RoPE and of NoPE layers apart where the model has both.
inline std::vector<shared_key_likeness> shared_keys_of(const model_report& report) {
  std::vector<shared_key_likeness> results;
  for (const auto& [name, heads] : head_groups(report.heads))
    results.push_back(shared_key_likeness_of(report, name, heads));
  return results;
}

/// key_groups.csv: a row per group of heads; `_error` is the jackknife over documents, `_head_error` that over heads.
inline void write_shared_keys_csv(const std::filesystem::path& path, const std::vector<shared_key_likeness>& results);

}  // namespace qkgeom

#include "examples/heads/shared_keys.hpp"
