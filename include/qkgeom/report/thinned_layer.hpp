// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom {

/// A copy of at most `most` queries and at most `most` keys of a layer: those whose counter-based random numbers are
/// smallest, in their order.
template <class T>
class thinned_layer {
 public:
  thinned_layer(const layer_view<T>& from, index_t most, std::uint64_t seed) : view_(from) {
    keep(view_.q, view_.q_position, view_.q_document, q_, most, {seed, 0, 0, draw::fit_row});
    keep(view_.k, view_.k_position, view_.k_document, k_, most, {seed, 1, 0, draw::fit_row});
  }
  thinned_layer(const thinned_layer&) = delete;
  thinned_layer& operator=(const thinned_layer&) = delete;

  const layer_view<T>& view() const { return view_; }

 private:
  struct side {
    std::vector<T> rows;
    std::vector<std::int32_t> position, document;
  };

  /// At most `most` of n rows, ascending.
  static std::vector<index_t> kept_rows(index_t n, index_t most, const random_stream& stream) {
    std::vector<std::pair<double, index_t>> drawn;
    for (index_t i = 0; i < n; ++i) drawn.emplace_back(stream.uniform(static_cast<std::uint64_t>(i)), i);
    if (most < n) {
      std::nth_element(drawn.begin(), drawn.begin() + most, drawn.end());
      drawn.resize(most);
    }
    std::vector<index_t> rows;
    for (const auto& [number, row] : drawn) rows.push_back(row);
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  static void keep(tensor_view<const T>& x, vector_view<const std::int32_t>& position,
                   vector_view<const std::int32_t>& document, side& to, index_t most, const random_stream& stream) {
    for (const index_t i : kept_rows(x.rows, most, stream)) {
      for (index_t h = 0; h < x.heads; ++h) to.rows.insert(to.rows.end(), x.head(h).row(i), x.head(h).row(i) + x.dim);
      to.position.push_back(position[i]);
      to.document.push_back(document[i]);
    }
    const auto n = static_cast<index_t>(to.position.size());
    x = packed_tensor<const T>(to.rows.data(), n, x.heads, x.dim);
    position = {to.position.data(), n};
    document = {to.document.data(), n};
  }

  side q_, k_;
  layer_view<T> view_;
};

}  // namespace qkgeom
