// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::detail {

/// A row of queries and the draw that decides whether it is kept.
struct drawn_query {
  double draw = 0;
  index_t row = 0;                  ///< row number in the layer
  std::vector<std::byte> values{};  ///< (heads, d), of any type
};

/// The kept queries of one bucket, the number of queries seen in it, and the sum of their positions.
struct query_draws {
  std::vector<drawn_query> kept{};
  index_t count = 0;
  double position_sum = 0;
};

/// Keeps the queries with the `max_queries` smallest draws of each bucket, for any type of value.
class query_choice {
 public:
  query_choice(bucket_edges edges, index_t max_queries, std::uint64_t seed)
      : edges_(std::move(edges)), max_queries_(max_queries), seed_(seed), bucket_(edges_.count()) {
    require(max_queries >= 2, "max_queries must be at least 2, not ", max_queries);
  }

  /// Adds the next rows of the layer; append(i, values) appends the values of row i.
  void add(const vector_view<const std::int32_t>& position,
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

  /// Returns the kept queries by bucket, in the order of their row numbers. Call it once.
  std::vector<query_draws> take() {
    std::vector<query_draws> all;
    for (auto& mine : bucket_) {
      thin(mine);
      std::sort(mine.kept.begin(), mine.kept.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
      all.push_back({std::exchange(mine.kept, {}), mine.count, mine.position_sum});
    }
    return all;
  }

  const bucket_edges& edges() const { return edges_; }
  index_t seen() const { return seen_; }

 private:
  void thin(query_draws& b) const {
    if (static_cast<index_t>(b.kept.size()) <= max_queries_) return;
    const auto before = [](const drawn_query& x, const drawn_query& y) {
      return std::tie(x.draw, x.row) < std::tie(y.draw, y.row);
    };
    std::nth_element(b.kept.begin(), b.kept.begin() + max_queries_, b.kept.end(), before);
    b.kept.resize(max_queries_);
  }

  bucket_edges edges_;
  index_t max_queries_;
  std::uint64_t seed_;
  index_t seen_ = 0;
  std::vector<query_draws> bucket_;
};

}  // namespace qkgeom::detail
