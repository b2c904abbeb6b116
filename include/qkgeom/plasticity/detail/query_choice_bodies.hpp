// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <tuple>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/plasticity/detail/query_choice.hpp"

namespace qkgeom::detail {

QKGEOM_INLINE query_choice::query_choice(bucket_edges edges, index_t max_queries, std::uint64_t seed)
    : edges_(std::move(edges)), max_queries_(max_queries), seed_(seed), bucket_(edges_.count()) {
  require(max_queries >= 2, "max_queries must be at least 2, not ", max_queries);
}

QKGEOM_INLINE void query_choice::add(const vector_view<const std::int32_t>& position,
                                     const std::function<void(index_t, std::vector<std::byte>&)>& append) {
  for (index_t i = 0; i < position.size; ++i) {
    const index_t b = edges_(position[i]);
    if (b < 0) continue;
    auto& mine = bucket_[b];
    mine.position_sum += position[i];
    ++mine.count;
    const random_stream stream{seed_, 0, static_cast<std::uint32_t>(b), draw::query_subset};
    mine.kept.push_back({stream.uniform(seen_ + i), seen_ + i, {}});
    append(i, mine.kept.back().values);
    if (static_cast<index_t>(mine.kept.size()) >= 2 * max_queries_) thin(mine);
  }
  seen_ += position.size;
}

QKGEOM_INLINE std::vector<query_draws> query_choice::take() {
  std::vector<query_draws> all;
  for (auto& mine : bucket_) {
    thin(mine);
    std::sort(mine.kept.begin(), mine.kept.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
    all.push_back({std::exchange(mine.kept, {}), mine.count, mine.position_sum});
  }
  return all;
}

QKGEOM_INLINE void query_choice::thin(query_draws& b) const {
  if (static_cast<index_t>(b.kept.size()) <= max_queries_) return;
  const auto before = [](const drawn_query& x, const drawn_query& y) {
    return std::tie(x.draw, x.row) < std::tie(y.draw, y.row);
  };
  std::nth_element(b.kept.begin(), b.kept.begin() + max_queries_, b.kept.end(), before);
  b.kept.resize(max_queries_);
}

}  // namespace qkgeom::detail
