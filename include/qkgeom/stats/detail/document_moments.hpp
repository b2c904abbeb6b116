// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "qkgeom/core/view.hpp"

namespace qkgeom::detail {

/// Ends of the stretches of rows that hold `count` documents each; one stretch of all rows unless the rows of each
/// document are adjacent.
inline std::vector<index_t> document_stretches(const vector_view<const std::int32_t>& document, index_t count) {
  std::vector<index_t> ends;
  std::vector<std::int32_t> runs;
  for (index_t i = 1; i <= document.size; ++i)
    if (i == document.size || document[i] != document[i - 1]) {
      runs.push_back(document[i - 1]);
      if (runs.size() % count == 0 || i == document.size) ends.push_back(i);
    }
  std::sort(runs.begin(), runs.end());
  const bool adjacent = std::adjacent_find(runs.begin(), runs.end()) == runs.end();
  return adjacent ? ends : std::vector<index_t>{document.size};
}

}  // namespace qkgeom::detail
