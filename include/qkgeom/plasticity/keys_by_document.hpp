// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/head.hpp"

namespace qkgeom {

/// Groups keys by document and orders each group by position; `across_documents` makes one group of all keys. Positions
/// (tokens) and documents belong to the rows (n) of a layer's k.
inline keys_by_document order_keys_by_document(const vector_view<const std::int32_t>& position,
                                               const vector_view<const std::int32_t>& document, bool across_documents) {
  keys_by_document g;
  g.row.resize(position.size);
  std::iota(g.row.begin(), g.row.end(), std::int64_t{0});
  const auto before = [&](std::int64_t a, std::int64_t b) {
    if (!across_documents && document[a] != document[b]) return document[a] < document[b];
    return position[a] < position[b];
  };
  if (!std::is_sorted(g.row.begin(), g.row.end(), before)) std::stable_sort(g.row.begin(), g.row.end(), before);
  g.offset.push_back(0);
  for (std::size_t i = 0; i < g.row.size(); ++i) {
    if (i == 0 || (!across_documents && document[g.row[i]] != g.document.back())) {
      if (i > 0) g.offset.push_back(i);
      g.document.push_back(across_documents ? -1 : document[g.row[i]]);
    }
    g.position.push_back(position[g.row[i]]);
    if (across_documents) g.key_document.push_back(document[g.row[i]]);
  }
  if (!g.row.empty()) g.offset.push_back(g.row.size());
  return g;
}

/// Orders the keys of a layer in the memory of any context.
template <context Context, class T, memory_space S>
keys_by_document order_keys_by_document(Context& ctx, const layer_view<T, S>& layer, bool across_documents) {
  const auto position = ctx.host_copy(layer.k_position), document = ctx.host_copy(layer.k_document);
  return order_keys_by_document(position.view(), document.view(), across_documents);
}

/// Keys in groups by document and key bucket.
struct bucketed_keys {
  keys_by_document groups;
  std::vector<index_t> bucket;  ///< (groups) key bucket

  /// Returns the indices of the groups of bucket b.
  std::vector<index_t> members(index_t b) const {
    std::vector<index_t> in;
    for (std::size_t g = 0; g < bucket.size(); ++g)
      if (bucket[g] == b) in.push_back(g);
    return in;
  }
};

/// Splits each group where the key bucket changes; omits keys outside all buckets.
inline bucketed_keys split_by_bucket(const keys_by_document& whole, const bucket_edges& edges) {
  bucketed_keys out;
  for (std::size_t g = 0; g + 1 < whole.offset.size(); ++g) {
    index_t last = -1;
    for (index_t i = whole.offset[g]; i < whole.offset[g + 1]; ++i) {
      const index_t bucket = edges(whole.position[i]);
      if (bucket < 0) continue;
      if (bucket != last) {
        out.bucket.push_back(last = bucket);
        out.groups.offset.push_back(out.groups.row.size());
        out.groups.document.push_back(whole.document[g]);
      }
      out.groups.row.push_back(whole.row[i]);
      out.groups.position.push_back(whole.position[i]);
      if (!whole.key_document.empty()) out.groups.key_document.push_back(whole.key_document[i]);
    }
  }
  out.groups.offset.push_back(out.groups.row.size());
  return out;
}

/// A layer that several calls of `plasticity_profile`, `bucket_table` or `empirical_profile` read: its keys are ordered
/// by document once, and a context that computes elsewhere (uploading_context) copies them once. Give those calls the
/// same context. The rows must not change meanwhile. Throws as `check_shapes` does. Use it from one thread at a time.
template <class T, memory_space S = memory_space::host>
class prepared_layer {
 public:
  template <context Context>
  prepared_layer(Context& ctx, layer_view<T, S> layer) : prepared_layer(std::move(layer)) {
    if constexpr (requires { ctx.keep(layer_.k); }) kept_ = ctx.keep(layer_.k);
  }

  /// Prepares for one call: nothing is copied beforehand.
  explicit prepared_layer(layer_view<T, S> layer) : layer_(std::move(layer)) { check_shapes(layer_); }

  const layer_view<T, S>& view() const { return layer_; }

  /// Returns the keys in the order of `order_keys_by_document`, which the first call computes.
  template <context Context>
  const keys_by_document& keys(Context& ctx, bool across_documents) {
    auto& keys = across_documents ? pooled_ : by_document_;
    if (!keys) keys = order_keys_by_document(ctx, layer_, across_documents);
    return *keys;
  }

 private:
  layer_view<T, S> layer_;
  std::shared_ptr<const void> kept_;
  std::optional<keys_by_document> by_document_, pooled_;
};

}  // namespace qkgeom
