// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace qkgeom {

/// Heads of a model by name and index: `all`, then `rope` and `nope` where the model has both kinds of layer. A head is
/// anything with a member `rope`.
template <class Head>
std::vector<std::pair<std::string, std::vector<std::size_t>>> head_groups(const std::vector<Head>& heads) {
  std::vector<std::size_t> all, rope, nope;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    all.push_back(h);
    (heads[h].rope ? rope : nope).push_back(h);
  }
  if (rope.empty() || nope.empty()) return {{"all", all}};
  return {{"all", all}, {"rope", rope}, {"nope", nope}};
}

}  // namespace qkgeom
