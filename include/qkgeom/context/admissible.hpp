// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "qkgeom/context/pair_problem.hpp"

namespace qkgeom {

/// Which keys a query bucket admits; the score distribution is left empty. Keys lie before position `before`, the
/// bucket's start, and in windowed layers after tau - window (tokens).
inline score_distribution admitting(index_t before, double tau, std::optional<index_t> window) {
  score_distribution distribution;
  distribution.tau = tau;
  distribution.before = before;
  if (window) distribution.after = tau - static_cast<double>(*window);
  return distribution;
}

/// Half-open range of ranks of a group's keys.
struct rank_range {
  index_t begin = 0, end = 0;
  QKGEOM_HD index_t size() const { return end > begin ? end - begin : 0; }
  QKGEOM_HD std::int64_t pairs() const { return size() * (size() - 1) / 2; }
};

/// Ranks of the group's keys that the distribution admits.
inline rank_range admissible(const keys_by_document& groups, index_t group, const score_distribution& distribution) {
  const auto first = groups.position.begin() + groups.offset[group];
  const auto last = groups.position.begin() + groups.offset[group + 1];
  const auto begin = std::partition_point(first, last, [&](std::int32_t t) { return !(t > distribution.after); });
  const auto end = std::lower_bound(first, last, distribution.before);
  return {begin - first, end - first};
}

/// The admissible keys of one group: [first, first + count) in the order of `keys_by_document`.
struct group_range {
  index_t first = 0, count = 0, group = 0;
};

/// The admissible keys of each group that has at least two.
inline std::vector<group_range> ranges_of(const keys_by_document& groups, const score_distribution& distribution) {
  std::vector<group_range> ranges;
  for (index_t g = 0; g < groups.groups(); ++g) {
    const auto r = admissible(groups, g, distribution);
    if (r.size() >= 2) ranges.push_back({groups.offset[g] + r.begin, r.size(), g});
  }
  return ranges;
}

/// Ranks i < j of a pair.
struct rank_pair {
  std::int32_t i = 0, j = 0;
};

/// The pair with number r = j (j - 1) / 2 + i.
QKGEOM_HD inline rank_pair pair_of_number(std::int64_t r) {
  auto j = static_cast<std::int64_t>(0.5 * (1.0 + std::sqrt(1.0 + 8.0 * static_cast<double>(r))));
  while (j * (j - 1) / 2 > r) --j;
  while (j * (j + 1) / 2 <= r) ++j;
  return {static_cast<std::int32_t>(r - j * (j - 1) / 2), static_cast<std::int32_t>(j)};
}

}  // namespace qkgeom
