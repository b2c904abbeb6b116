// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "qkgeom/context/spread_rows.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/bytes.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::detail {

/// A row of queries and the draw that decides whether it is kept.
struct drawn_query {
  double draw = 0;
  index_t row = 0;                  ///< row number in the layer
  std::vector<std::byte> values{};  ///< (heads, d), whatever their type
  template <class F>
  friend void with_members(some<drawn_query> auto& x, const F& f) {
    f(x.draw, x.row, x.values);
  }
};

/// The kept queries of one bucket, the number of its queries seen, and the sum of their positions.
struct query_draws {
  std::vector<drawn_query> kept{};
  index_t count = 0;
  double position_sum = 0;
  template <class F>
  friend void with_members(some<query_draws> auto& x, const F& f) {
    f(x.kept, x.count, x.position_sum);
  }
};

/// Keeps the queries with the `max_queries` smallest draws of each bucket, whatever the type of their values.
class query_choice {
 public:
  query_choice(bucket_edges edges, index_t max_queries, std::uint64_t seed);

  /// Adds the next `rows_of_all` rows of the layer. This process has the rows of `position`; `number` holds their
  /// numbers among the added rows, null if it has all of them. append(i, values) appends the values of row i.
  void add(const vector_view<const std::int32_t>& position, const std::vector<index_t>* number, index_t rows_of_all,
           const std::function<void(index_t, std::vector<std::byte>&)>& append);

  /// Drops the queries that one process with the rows of all processes would not keep.
  template <context Context>
  void choose_among_all(Context& ctx) {
    for (auto& mine : bucket_) {
      thin(mine);
      query_draws drawn{{}, mine.count, mine.position_sum};  // draws travel first, then the values of what is chosen
      for (const auto& k : mine.kept) drawn.kept.push_back({k.draw, k.row, {}});
      query_draws all;
      for (const auto& more : ctx.of_all(std::vector{drawn})) {
        all.kept.insert(all.kept.end(), more.kept.begin(), more.kept.end());
        all.count += more.count;
        all.position_sum += more.position_sum;  // integers: exact in any order
      }
      thin(all);
      std::set<index_t> chosen;
      for (const auto& k : all.kept) chosen.insert(k.row);
      std::erase_if(mine.kept, [&](const drawn_query& k) { return !chosen.contains(k.row); });
      mine = {ctx.of_all(mine.kept), all.count, all.position_sum};
    }
  }

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
