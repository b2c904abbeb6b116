// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/numbers/head_values.hpp"

namespace qkgeom::examples {

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

/// All heads, then those of RoPE and of NoPE layers apart where the model has both; a mean without pairs is NaN.
std::vector<shared_key_likeness> shared_keys_of(const model_report& report);

/// key_groups.csv: a row per group of heads.
qkgeom::table shared_keys_table(const std::vector<shared_key_likeness>& results);

}  // namespace qkgeom::examples
