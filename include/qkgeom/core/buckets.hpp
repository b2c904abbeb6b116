// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Ascending bucket edges in tokens: bucket b holds the positions [edges[b], edges[b + 1]).
class bucket_edges {
 public:
  bucket_edges() = default;
  /// Takes ascending edges. Throws `error` unless they ascend and their number is 0 or at least 2.
  explicit bucket_edges(std::vector<index_t> edges) : edges_(std::move(edges)) {
    require(edges_.size() != 1, "bucket edges need at least two values");
    for (std::size_t i = 1; i < edges_.size(); ++i)
      require(edges_[i - 1] < edges_[i], "bucket edges must ascend, but ", edges_[i - 1], " is followed by ",
              edges_[i]);
    if (edges_.size() < 2) return;
    const index_t width = edges_[1] - edges_[0];
    for (std::size_t i = 2; i + 1 < edges_.size(); ++i)
      if (edges_[i] - edges_[i - 1] != width) return;
    if (edges_.back() - edges_[edges_.size() - 2] <= width) uniform_width_ = width;
  }

  index_t count() const { return edges_.empty() ? 0 : static_cast<index_t>(edges_.size()) - 1; }
  index_t start(index_t b) const { return edges_[b]; }
  index_t end(index_t b) const { return edges_[b + 1]; }
  /// Returns half the sum of the two edges, in tokens (tau_q of section 4.4.3).
  double middle(index_t b) const { return 0.5 * static_cast<double>(start(b) + end(b)); }
  const std::vector<index_t>& edges() const { return edges_; }

  /// Returns the bucket of position t, or -1 outside all buckets.
  index_t operator()(index_t t) const {
    if (count() == 0 || t < edges_.front() || t >= edges_.back()) return -1;
    if (uniform_width_) return (t - edges_.front()) / uniform_width_;
    return static_cast<index_t>(std::upper_bound(edges_.begin(), edges_.end(), t) - edges_.begin()) - 1;
  }
  bool operator==(const bucket_edges& other) const { return edges_ == other.edges_; }

 private:
  std::vector<index_t> edges_;
  index_t uniform_width_ = 0;
};

/// A type that divides the positions [0, length) into buckets.
template <class B>
concept bucketing = requires(const B& b, index_t length) {
  { b.edges(length) } -> std::convertible_to<bucket_edges>;
};

/// `bucket = floor(t / size)` (section 4.1.2). The last edge is at most the length.
struct uniform_buckets {
  index_t size;

  bucket_edges edges(index_t length) const {
    require(size > 0, "bucket size must be at least 1 token, not ", size);
    std::vector<index_t> e;
    for (index_t start = 0; start < length; start += size) e.push_back(start);
    if (!e.empty()) e.push_back(length);
    return bucket_edges(std::move(e));
  }
};

/// `bucket = max(floor(log2(t + 1)), floor(log2(minimum)))`: edges at 2^b - 1; buckets below `minimum` are joined.
struct log2_buckets {
  index_t minimum = 1;

  bucket_edges edges(index_t length) const {
    require(minimum > 0, "smallest log2 bucket must be at least 1 token, not ", minimum);
    std::vector<index_t> e;
    if (length > 0) e.push_back(0);
    for (index_t next = 2 * static_cast<index_t>(std::bit_floor(static_cast<std::uint64_t>(minimum)));
         next - 1 < length; next *= 2)
      e.push_back(next - 1);
    if (length > 0) e.push_back(length);
    return bucket_edges(std::move(e));
  }
};

/// Buckets between given ascending edges, e.g. {0, 1024, 2048, 4096}. Positions outside the edges are in no bucket.
struct edge_buckets {
  std::vector<index_t> values;

  bucket_edges edges(index_t) const { return bucket_edges(values); }
};

/// Attention mass is summed over the first 1, 4 and 64 tokens of a document.
inline constexpr std::array<index_t, 3> first_tokens{1, 4, 64};

/// Returns the edges, in tokens, of the bins of query-to-key distance over a context of `length` tokens: 0, 1, 2, 4, 8,
/// ..., up to the first that is at least `length`.
inline bucket_edges distance_edges(index_t length) {
  std::vector<index_t> edges{0, 1};
  while (edges.back() < length) edges.push_back(2 * edges.back());
  return bucket_edges(std::move(edges));
}
/// Returns the number of bins of `distance_edges`.
inline index_t distance_bins(index_t length) { return distance_edges(length).count(); }

}  // namespace qkgeom
