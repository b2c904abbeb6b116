// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Seed of an untrained model's weights, as the manifest writes it; none: the weights are a checkpoint's.
inline std::optional<std::string> untrained_seed(const capture_manifest& m) {
  const auto at = m.extra.find("untrained");
  if (at == m.extra.end() || !at->is_object() || !at->contains("seed")) return std::nullopt;
  return (*at)["seed"].dump();
}

}  // namespace qkgeom
