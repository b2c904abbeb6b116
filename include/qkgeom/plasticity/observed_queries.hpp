// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/plasticity/detail/query_choice.hpp"

namespace qkgeom {

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
