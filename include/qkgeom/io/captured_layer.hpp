// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// The queries or the keys of a captured layer: elements (rows, heads, dim), and per row position, document and, if the
/// capture has it, token id. Views into mapped files or into copies; `owners` keeps those alive, so copies of this
/// share.
struct captured_side {
  std::string file;    ///< where the rows come from, for errors
  std::string tensor;  ///< e.g. "layer.3.q"
  dtype element = dtype::f32;
  index_t rows = 0, heads = 0, dim = 0;
  const std::byte* data = nullptr;
  vector_view<const std::int32_t> position{}, document{};
  vector_view<const std::int32_t> token{};  ///< empty if the capture has none
  std::vector<std::shared_ptr<const void>> owners{};

  std::size_t bytes() const { return static_cast<std::size_t>(rows * heads * dim) * size_of(element); }
};

/// A layer as captured: rows of its query and key heads. Stays valid without the capture it was read from.
struct captured_layer {
  index_t layer = 0;
  bool rope = true;
  std::optional<index_t> window;      ///< in tokens
  dtype element = dtype::f32;         ///< of q and k
  std::vector<index_t> query_heads;   ///< the model's head indices in the order of q's axis 1
  std::vector<index_t> key_heads;     ///< the same of k
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

  /// Calls `f(layer_view<T>)` with the T of the capture: the place where its dtype becomes a type.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return visit_element_type(element, [&]<class T>() -> decltype(auto) { return std::forward<F>(f)(view<T>()); });
  }
};

namespace detail {

/// Bits of T and those of its exponent: all of them set means NaN or infinity.
template <class T>
struct exponent_bits;
template <>
struct exponent_bits<bf16> {
  using type = std::uint16_t;
  static constexpr type mask = 0x7f80;
  static type of(bf16 x) { return x.bits; }
};
template <>
struct exponent_bits<f16> {
  using type = std::uint16_t;
  static constexpr type mask = 0x7c00;
  static type of(f16 x) { return x.bits; }
};
template <>
struct exponent_bits<float> {
  using type = std::uint32_t;
  static constexpr type mask = 0x7f800000;
  static type of(float x) { return std::bit_cast<type>(x); }
};
template <>
struct exponent_bits<double> {
  using type = std::uint64_t;
  static constexpr type mask = 0x7ff0000000000000;
  static type of(double x) { return std::bit_cast<type>(x); }
};

/// True if none of n elements is NaN or infinite. A full exponent plus its lowest bit carries into the sign bit: a loop
/// of integer operations without an exit or a comparison, which compilers vectorise.
template <class T>
bool all_finite(const T* x, std::size_t n) {
  using bits = typename exponent_bits<T>::type;
  constexpr bits mask = exponent_bits<T>::mask, lowest = static_cast<bits>(mask & (~mask + 1));
  bits seen = 0;
  for (std::size_t i = 0; i < n; ++i)
    seen = static_cast<bits>(seen | static_cast<bits>((exponent_bits<T>::of(x[i]) & mask) + lowest));
  return seen >> (8 * sizeof(bits) - 1) == 0;
}

template <class T>
void check_finite(const captured_side& side) {
  const T* const data = reinterpret_cast<const T*>(side.data);
  const auto width = static_cast<std::size_t>(side.heads * side.dim);
  for (index_t i = 0; i < side.rows; ++i) {
    const T* const row = data + static_cast<std::size_t>(i) * width;
    if (all_finite(row, width)) [[likely]]
      continue;
    std::size_t j = 0;
    while (all_finite(row + j, 1)) ++j;
    const double value = static_cast<double>(row[j]);
    fail(side.file, ": tensor ", side.tensor, " row ", i, " (example ", side.document[i], ", position ",
         side.position[i], ") holds ", value != value ? "NaN" : "an infinity", " at head ",
         j / static_cast<std::size_t>(side.dim), " of the tensor, coordinate ", j % static_cast<std::size_t>(side.dim));
  }
}

}  // namespace detail

/// Throws `error` naming tensor and row if a query or key of the layer is NaN or infinite.
inline void check_finite(const captured_layer& layer) {
  visit_element_type(layer.element, [&]<class T>() {
    detail::check_finite<T>(layer.q);
    detail::check_finite<T>(layer.k);
  });
}

}  // namespace qkgeom
