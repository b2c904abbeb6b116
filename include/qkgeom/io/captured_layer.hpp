// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/io/detail/all_finite.hpp"

namespace qkgeom {

/// The queries or the keys of a captured layer: elements (rows, heads, dim), and per row position, document and, if the
/// capture has it, token id. Views into mapped files or copies, which `owners` keeps alive; copies of this share them.
struct captured_side {
  std::string file;    ///< where the rows come from, for errors
  std::string tensor;  ///< e.g. "layer.3.q"
  dtype element = dtype::f32;
  index_t rows = 0, heads = 0, dim = 0;
  const std::byte* data = nullptr;
  vector_view<const std::int32_t> position{}, document{};
  vector_view<const std::int32_t> token{};  ///< empty if the capture has none
  std::vector<std::shared_ptr<const void>> owners{};

  std::size_t bytes() const { return rows * heads * dim * size_of(element); }
};

/// A layer as captured: rows of its query and key heads. Stays valid without the capture it was read from.
struct captured_layer {
  index_t layer = 0;
  bool rope = true;
  std::optional<index_t> window;      ///< in tokens
  dtype element = dtype::f32;         ///< of q and k
  std::vector<index_t> query_heads;   ///< the model's head indices in the order of q's axis 1
  std::vector<index_t> key_heads;     ///< the same for k
  std::vector<index_t> key_of_query;  ///< index into key_heads by query head
  captured_side q, k;

  /// The rows as elements of T. Throws `error` if the capture holds another type.
  template <class T>
  layer_view<T> view() const {
    require(dtype_of<T>() == element, q.tensor, " holds ", name_of(element), ", not ", name_of(dtype_of<T>()));
    const auto tensor = [](const captured_side& s) {
      return packed_tensor(reinterpret_cast<const T*>(s.data), s.rows, s.heads, s.dim);
    };
    return {tensor(q), q.position, q.document, tensor(k), k.position, k.document, key_of_query, window};
  }

  /// Calls `f(layer_view<T>)` with the capture's element type.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return visit_element_type(element, [&]<class T>() -> decltype(auto) { return std::forward<F>(f)(view<T>()); });
  }
};

/// Throws `error` naming tensor and head if the values of a head have sizes that f64 does not take (`takes_size`).
inline void check_sizes(const captured_side& side) {
  const double* const data = reinterpret_cast<const double*>(side.data);
  for (index_t h = 0; h < side.heads; ++h) {
    double largest = 0;
    for (index_t i = 0; i < side.rows; ++i)
      for (index_t c = 0; c < side.dim; ++c)
        largest = std::max(largest, std::abs(data[(i * side.heads + h) * side.dim + c]));
    require(takes_size(largest), side.file, ": tensor ", side.tensor, " holds values up to ", largest, " at head ", h,
            " of the tensor, but sizes must lie between ", smallest_size, " and ", largest_size, "; scale the rows");
  }
}

/// Throws `error` naming tensor and row if a query or key of the layer is NaN or infinite, or of a size that f64 does
/// not take.
inline void check_finite(const captured_layer& layer) {
  visit_element_type(layer.element, [&]<class T>() {
    for (const auto* side : {&layer.q, &layer.k}) {
      const T* const data = reinterpret_cast<const T*>(side->data);
      const index_t width = side->heads * side->dim;
      for (index_t i = 0; i < side->rows; ++i) {
        const T* const row = data + i * width;
        if (detail::all_finite(row, width)) [[likely]]
          continue;
        index_t j = 0;
        while (detail::all_finite(row + j, 1)) ++j;
        const double value = static_cast<double>(row[j]);
        fail(side->file, ": tensor ", side->tensor, " row ", i, " (example ", side->document[i], ", position ",
             side->position[i], ") holds ", value != value ? "NaN" : "an infinity", " at head ", j / side->dim,
             " of the tensor, coordinate ", j % side->dim);
      }
      if constexpr (std::is_same_v<T, double>) check_sizes(*side);
    }
  });
}

}  // namespace qkgeom
