// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "qkgeom/backend/detail/cpu_pair_prepare.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom::cpu {

/// Ranks i < j in the admissible range of a group.
struct drawn_pair {
  std::int32_t i = 0, j = 0;
};

/// Pair number r of i < j, by j, then i: r = j (j - 1) / 2 + i.
inline drawn_pair pair_of_number(std::int64_t r) {
  auto j = static_cast<std::int64_t>(0.5 * (1.0 + std::sqrt(1.0 + 8.0 * static_cast<double>(r))));
  while (j * (j - 1) / 2 > r) --j;
  while (j * (j + 1) / 2 <= r) ++j;
  return {static_cast<std::int32_t>(r - j * (j - 1) / 2), static_cast<std::int32_t>(j)};
}

/// The pairs one law takes, by group: those of group g are pairs [offset[g], offset[g + 1]).
struct law_draws {
  bool all = false;   ///< every admissible pair once
  double weight = 1;  ///< pairs that each one stands for
  std::vector<std::int64_t> offset;
  std::vector<drawn_pair> pairs;
};

/// Draws of law `l` of problem `p`: uniform over the pairs that the law admits, with replacement.
inline law_draws draw_pairs(const key_groups& groups, const score_law& law, const pair_sample& sample, index_t p,
                            index_t l) {
  const auto n = static_cast<std::size_t>(groups.groups());
  std::vector<std::int64_t> before(n + 1);
  for (std::size_t g = 0; g < n; ++g)
    before[g + 1] = before[g] + (law.empty() ? 0 : admissible(groups, static_cast<index_t>(g), law).pairs());
  law_draws result;
  result.all = sample.pairs == 0 || before[n] <= sample.pairs;
  if (result.all) return result;
  result.weight = static_cast<double>(before[n]) / static_cast<double>(sample.pairs);
  const random_stream stream{sample.seed, static_cast<std::uint32_t>(p << 16 | l), sample.layer, draw::pair};
  std::vector<std::pair<std::int32_t, drawn_pair>> drawn;
  result.offset.assign(n + 1, 0);
  for (index_t i = 0; i < sample.pairs; ++i) {
    const auto r =
        static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(before[n])));
    const auto g = static_cast<std::size_t>(std::upper_bound(before.begin(), before.end(), r) - before.begin()) - 1;
    drawn.emplace_back(static_cast<std::int32_t>(g), pair_of_number(r - before[g]));
    ++result.offset[g + 1];
  }
  for (std::size_t g = 0; g < n; ++g) result.offset[g + 1] += result.offset[g];
  auto next = result.offset;
  result.pairs.resize(drawn.size());
  for (const auto& [g, pair] : drawn)
    result.pairs[static_cast<std::size_t>(next[static_cast<std::size_t>(g)]++)] = pair;
  return result;
}

}  // namespace qkgeom::cpu
