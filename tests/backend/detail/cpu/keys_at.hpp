// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "qkgeom/context/pair_problem.hpp"

namespace qkgeom::test {

/// The keys of documents 0, 1, ... at these positions, which are sorted; key i is row i.
inline keys_by_document keys_at(std::vector<std::vector<std::int32_t>> documents) {
  keys_by_document groups;
  groups.offset.push_back(0);
  for (auto& t : documents) {
    std::sort(t.begin(), t.end());
    groups.position.insert(groups.position.end(), t.begin(), t.end());
    groups.document.push_back(static_cast<std::int32_t>(groups.document.size()));
    groups.offset.push_back(static_cast<index_t>(groups.position.size()));
  }
  groups.row.resize(groups.position.size());
  std::iota(groups.row.begin(), groups.row.end(), std::int64_t{0});
  return groups;
}

}  // namespace qkgeom::test
