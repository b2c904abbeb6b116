// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "qkgeom/context/spread_rows.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/bytes.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom {

/// Gathers the observed queries of a layer by query bucket, from the layer's rows at once or shard by shard: at most
/// `max_queries` per bucket, those with the smallest counter-based draw by row number. Memory does not grow with the
/// rows, and the choice does not depend on the shards.
template <class T>
class observed_queries {
 public:
  /// Throws unless `max_queries` is at least 2.
  observed_queries(bucket_edges edges, index_t max_queries, std::uint64_t seed)
      : edges_(std::move(edges)), max_queries_(max_queries), seed_(seed), bucket_(edges_.count()) {
    require(max_queries >= 2, "max_queries must be at least 2, not ", max_queries);
  }

  /// Adds the next rows of the layer. Throws if the heads differ from those before, or a query of a bucket is not
  /// finite.
  void add(const layer_view<T>& layer) {
    require(seen_ == 0 || (layer.q.heads == heads_ && layer.q.dim == dim_),
            "observed queries: the shards of a layer must have the same heads and head size");
    heads_ = layer.q.heads;
    dim_ = layer.q.dim;
    add_rows(
        layer.q_position, [](index_t i) { return i; }, values_of(layer.q));
    seen_ += layer.q.rows;
  }

  /// The same, where documents are spread over processes: `take(ctx)` chooses among the rows of all, which count by
  /// document ascending.
  template <context Context>
  void add(Context& ctx, const layer_view<T>& layer) {
    if constexpr (spreads_documents<Context>) {
      const auto all = ctx.rows_of_all("q", layer.q_position, layer.q_document);
      std::vector<index_t> number(layer.q.rows);
      for (std::size_t i = 0; i < all.row.size(); ++i)
        if (all.row[i] >= 0) number[all.row[i]] = static_cast<index_t>(i);
      heads_ = layer.q.heads;
      dim_ = layer.q.dim;
      add_rows(
          layer.q_position, [&](index_t i) { return number[i]; }, values_of(layer.q));
      seen_ += static_cast<index_t>(all.row.size());
    } else {
      add(layer);
    }
  }

  /// Adds the next rows of the layer by position alone: chooses the same rows and keeps no values.
  void add_positions(const vector_view<const std::int32_t>& position) {
    add_rows(
        position, [](index_t i) { return i; }, [](index_t, std::vector<T>&) {});
    seen_ += position.size;
  }

  /// The chosen rows (n, heads, d), by bucket, then row number. Movable only, since `q` views `values`.
  struct rows {
    rows() = default;
    rows(rows&&) noexcept = default;
    rows& operator=(rows&&) noexcept = default;

    std::vector<T> values;
    std::vector<index_t> row;                  ///< (n) row number in the layer
    tensor_view<const T> q;                    ///< of `values`
    std::vector<std::vector<index_t>> bucket;  ///< (buckets) rows of q
    std::vector<index_t> count;                ///< (buckets) queries seen, chosen or not
    std::vector<double> mean_position;         ///< (buckets) of the queries seen; NaN for an empty bucket
  };
  /// Returns the chosen rows and gives them away: call it once.
  rows take() {
    rows out;
    index_t n = 0;
    for (auto& mine : bucket_) {
      thin(mine);
      std::sort(mine.kept.begin(), mine.kept.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
      out.count.push_back(mine.count);
      out.mean_position.push_back(mine.position_sum / static_cast<double>(mine.count));
      out.bucket.emplace_back();
      for (auto& k : mine.kept) {
        out.values.insert(out.values.end(), k.values.begin(), k.values.end());
        out.bucket.back().push_back(n++);
        out.row.push_back(k.row);
      }
      mine.kept.clear();
    }
    out.q = {out.values.data(), n, heads_, dim_, heads_ * dim_, dim_};
    return out;
  }
  /// The same for rows added with `ctx`.
  template <context Context>
  rows take(Context& ctx) {
    if constexpr (spreads_documents<Context>) {
      for (auto& mine : bucket_) {
        thin(mine);
        bucket drawn{{}, mine.count, mine.position_sum};  // draws travel first, then the values of what is chosen
        for (const auto& k : mine.kept) drawn.kept.push_back({k.draw, k.row, {}});
        bucket all;
        for (const auto& more : ctx.of_all(std::vector{drawn})) {
          all.kept.insert(all.kept.end(), more.kept.begin(), more.kept.end());
          all.count += more.count;
          all.position_sum += more.position_sum;  // integers: exact in any order
        }
        thin(all);
        std::set<index_t> chosen;
        for (const auto& k : all.kept) chosen.insert(k.row);
        std::erase_if(mine.kept, [&](const query& k) { return !chosen.contains(k.row); });
        mine = {ctx.of_all(mine.kept), all.count, all.position_sum};
      }
    }
    return take();
  }
  const bucket_edges& edges() const { return edges_; }

 private:
  struct query {
    double draw = 0;
    index_t row = 0;
    std::vector<T> values{};  // (heads, d)
    template <class F>
    friend void with_members(some<query> auto& x, const F& f) {
      f(x.draw, x.row, x.values);
    }
  };
  struct bucket {
    std::vector<query> kept{};
    index_t count = 0;
    double position_sum = 0;
    template <class F>
    friend void with_members(some<bucket> auto& x, const F& f) {
      f(x.kept, x.count, x.position_sum);
    }
  };

  auto values_of(const tensor_view<const T>& q) const {
    return [this, q](index_t i, std::vector<T>& row) {
      for (index_t h = 0; h < heads_; ++h) row.insert(row.end(), q.head(h).row(i), q.head(h).row(i) + dim_);
      require(std::all_of(row.begin(), row.end(), [](T x) { return std::isfinite(static_cast<double>(x)); }),
              "observed queries: row ", seen_ + i, " of q is not finite");
    };
  }

  /// number(i): that of row i among those added now.
  template <class Number, class Keep>
  void add_rows(const vector_view<const std::int32_t>& position, const Number& number, const Keep& keep) {
    for (index_t i = 0; i < position.size; ++i) {
      const index_t b = edges_(position[i]);
      if (b < 0) continue;
      auto& mine = bucket_[b];
      mine.position_sum += position[i];
      ++mine.count;
      const random_stream stream{seed_, 0, static_cast<std::uint32_t>(b), draw::query_subset};
      const index_t row = seen_ + number(i);
      mine.kept.push_back({stream.uniform(row), row, {}});
      keep(i, mine.kept.back().values);
      if (static_cast<index_t>(mine.kept.size()) >= 2 * max_queries_) thin(mine);
    }
  }

  void thin(bucket& b) const {
    if (static_cast<index_t>(b.kept.size()) <= max_queries_) return;
    const auto before = [](const query& x, const query& y) {
      return std::pair(x.draw, x.row) < std::pair(y.draw, y.row);
    };
    std::nth_element(b.kept.begin(), b.kept.begin() + max_queries_, b.kept.end(), before);
    b.kept.resize(max_queries_);
  }

  bucket_edges edges_;
  index_t max_queries_;
  std::uint64_t seed_;
  index_t heads_ = 0, dim_ = 0, seen_ = 0;
  std::vector<bucket> bucket_;
};

}  // namespace qkgeom
