// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <compare>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom {

/// The layer and number of a query head of a model.
struct head_id {
  index_t layer = 0;
  index_t head = 0;
  auto operator<=>(const head_id&) const = default;
};

/// Returns the key head of query head `h` in grouped-query attention: floor(h / (query_heads / key_heads)) (4.1).
inline index_t key_head_of(index_t h, index_t query_heads, index_t key_heads) {
  require(query_heads > 0 && key_heads > 0 && query_heads % key_heads == 0, "query heads (", query_heads,
          ") must be a multiple of key heads (", key_heads, ")");
  require(h >= 0 && h < query_heads, "query head ", h, " of ", query_heads);
  return h / (query_heads / key_heads);
}

/// Draws `count` of the query heads of all `layers` without replacement, in ascending order; all if there are fewer.
/// The draw depends only on the seed and the candidates.
inline std::vector<head_id> draw_heads(const std::vector<index_t>& layers, index_t query_heads, index_t count,
                                       std::uint64_t seed) {
  std::vector<head_id> heads;
  for (const index_t l : layers)
    for (index_t h = 0; h < query_heads; ++h) heads.push_back({l, h});
  const random_stream stream{.seed = seed, .use = draw::head};
  const index_t n = static_cast<index_t>(heads.size()), m = std::clamp<index_t>(count, 0, n);
  for (index_t i = 0; i < m; ++i) {
    const index_t j = i + stream.below(i, n - i);
    std::swap(heads[i], heads[j]);
  }
  heads.resize(m);
  std::sort(heads.begin(), heads.end());
  return heads;
}

}  // namespace qkgeom
