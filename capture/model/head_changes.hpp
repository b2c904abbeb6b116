// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "capture/model/description.hpp"
#include "qkgeom/core/cache_types.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

/// Weights of a query head that come from another checkpoint.
enum class restored_part {
  query,       ///< its query projection
  shared_keys  ///< the projections of its key head and of all query heads that read it
};

/// A change to one query head in the forward pass.
struct head_change {
  head_id head;
  bool ablate = false;                  ///< its output is 0
  std::vector<double> key_slope{};      ///< (d) per token; not empty: the head sees keys k - key_slope (t - centre)
  double centre = 0;                    ///< tokens
  std::optional<cache_type> keys_as{};  ///< the head sees keys rounded by a cache of this type
  std::optional<restored_part> restore{};
};

/// A name and the changes that are made together under it.
struct condition {
  std::string name;
  std::vector<head_change> changes;
};

/// Reads a JSON file {"conditions": [{"name": "...", "changes": [{"head": "3.12", "ablate": true}, {"head":
/// "2.0", "key_slope": [...], "centre": 4096}, {"head": "2.1", "keys_as": "q4_0"}, {"head": "2.2", "restore":
/// "query"}]}]}. Throws `error` naming the field that is wrong or does not fit the model: an unknown or repeated head,
/// a slope of another length, a cache type that does not take the head size, a repeated name.
std::vector<condition> read_conditions(const std::filesystem::path& path, const decoder_description& model);

}  // namespace qkgeom
