// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace qkgeom {

/// Some heads of a model, by their indices.
struct head_group {
  std::string name;
  std::vector<std::size_t> heads;
};

/// Indices of all heads.
template <class Head>
std::vector<std::size_t> every_head(const std::vector<Head>& heads) {
  std::vector<std::size_t> all(heads.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// `all`, then `rope` and `nope` where the model has both kinds of layer. A head is anything with a member `rope`.
template <class Head>
std::vector<head_group> head_groups(const std::vector<Head>& heads) {
  std::vector<std::size_t> rope, nope;
  for (std::size_t h = 0; h < heads.size(); ++h) (heads[h].rope ? rope : nope).push_back(h);
  if (rope.empty() || nope.empty()) return {{"all", every_head(heads)}};
  return {{"all", every_head(heads)}, {"rope", rope}, {"nope", nope}};
}

}  // namespace qkgeom
