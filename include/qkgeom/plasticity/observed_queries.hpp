// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom {

namespace detail {

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

}  // namespace detail

/// Gathers the observed queries of a layer by query bucket, from all rows at once or shard by shard: the at most
/// `max_queries` per bucket with the smallest counter-based draw by row number. Memory does not grow with the rows, and
/// the choice does not depend on the shards.
template <class T>
class observed_queries {
 public:
  /// Throws unless `max_queries` is at least 2.
  observed_queries(bucket_edges edges, index_t max_queries, std::uint64_t seed)
      : choice_(std::move(edges), max_queries, seed) {}

  /// Adds the next rows of the layer. Throws if the heads differ from earlier rows, or a bucket's query is not finite.
  void add(const layer_view<T>& layer) {
    require(choice_.seen() == 0 || (layer.q.heads == heads_ && layer.q.dim == dim_),
            "observed queries: the shards of a layer must have the same heads and head size");
    const auto& q = layer.q;
    heads_ = q.heads;
    dim_ = q.dim;
    choice_.add(layer.q_position, [&](index_t i, std::vector<std::byte>& values) {
      for (index_t h = 0; h < q.heads; ++h) {
        const std::span row(q.head(h).row(i), static_cast<std::size_t>(q.dim));
        require(std::all_of(row.begin(), row.end(), [](T x) { return std::isfinite(static_cast<double>(x)); }),
                "observed queries: row ", choice_.seen() + i, " of q is not finite");
        const auto bytes = std::as_bytes(row);
        values.insert(values.end(), bytes.begin(), bytes.end());
      }
    });
  }

  /// Adds only the positions of the next rows of the layer: chooses the same rows and keeps no values.
  void add_positions(const vector_view<const std::int32_t>& position) {
    choice_.add(position, [](index_t, std::vector<std::byte>&) {});
  }

  /// The chosen rows (n, heads, d), by bucket, then row number. Movable only, since `q` views `values`.
  struct rows {
    rows() = default;
    rows(rows&&) noexcept = default;
    rows& operator=(rows&&) noexcept = default;

    std::vector<T> values;
    std::vector<index_t> row;                  ///< (n) row number in the layer
    tensor_view<const T> q;                    ///< views `values`
    std::vector<std::vector<index_t>> bucket;  ///< (buckets) rows of q
    std::vector<index_t> count;                ///< (buckets) queries seen, chosen or not
    std::vector<double> mean_position;         ///< (buckets) over the queries seen; NaN for an empty bucket
  };
  /// Returns the chosen rows and gives them away: call it once.
  rows take() {
    rows out;
    index_t n = 0;
    for (const auto& draws : choice_.take()) {
      out.count.push_back(draws.count);
      out.mean_position.push_back(draws.position_sum / static_cast<double>(draws.count));
      out.bucket.emplace_back();
      for (const auto& k : draws.kept) {
        const auto end = out.values.size();
        out.values.resize(end + k.values.size() / sizeof(T));
        if (!k.values.empty()) std::memcpy(out.values.data() + end, k.values.data(), k.values.size());
        out.bucket.back().push_back(n++);
        out.row.push_back(k.row);
      }
    }
    out.q = {out.values.data(), n, heads_, dim_, heads_ * dim_, dim_};
    return out;
  }
  const bucket_edges& edges() const { return choice_.edges(); }

 private:
  detail::query_choice choice_;
  index_t heads_ = 0, dim_ = 0;
};

}  // namespace qkgeom
