// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::test {

using ids = std::vector<std::int32_t>;
inline constexpr index_t no_limit = index_t{1} << 40;

/// FNV-1a hash of ids as little-endian bytes, as the scripts that make the fixtures compute it.
inline std::string fnv1a(const ids& list) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const std::int32_t id : list)
    for (int shift = 0; shift < 32; shift += 8)
      h = (h ^ ((static_cast<std::uint32_t>(id) >> shift) & 0xff)) * 0x100000001B3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

}  // namespace qkgeom::test
