// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/config.hpp"
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
  query_choice(bucket_edges edges, index_t max_queries, std::uint64_t seed);

  /// Adds the next rows of the layer; append(i, values) appends the values of row i.
  void add(const vector_view<const std::int32_t>& position,
           const std::function<void(index_t, std::vector<std::byte>&)>& append);

  /// Returns the kept queries by bucket, in the order of their row numbers. Call it once.
  std::vector<query_draws> take();

  const bucket_edges& edges() const { return edges_; }
  index_t seen() const { return seen_; }

 private:
  void thin(query_draws& b) const;

  bucket_edges edges_;
  index_t max_queries_;
  std::uint64_t seed_;
  index_t seen_ = 0;
  std::vector<query_draws> bucket_;
};

}  // namespace qkgeom::detail

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/plasticity/detail/query_choice_bodies.hpp"
#endif
