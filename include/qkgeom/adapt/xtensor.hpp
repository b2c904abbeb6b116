// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <vector>
#if __has_include(<xtensor/containers/xtensor.hpp>)  // xtensor 0.26 put its headers into folders
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xlayout.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xlayout.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

namespace detail {

/// Whether an xtensor expression holds its values itself, so that a view of a temporary one would dangle.
template <class X>
inline constexpr bool holds_values = false;
template <class Values, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool holds_values<xt::xtensor_container<Values, N, L, Tag>> = true;
template <class Values, xt::layout_type L, class Shape, class Tag>
inline constexpr bool holds_values<xt::xarray_container<Values, L, Shape, Tag>> = true;
template <class Of, class... Slices>
inline constexpr bool holds_values<xt::xview<Of, Slices...>> = holds_values<Of>;

/// Values from one index of `axis` to the next.
template <class X>
index_t stride_of(const X& x, std::size_t axis) {
  return static_cast<index_t>(x.strides()[axis]);
}

/// The first value of a container or view of `axes` axes. Throws unless the values along the last axis follow one
/// another.
template <class X>
const typename X::value_type* first_value(const char* function, const X& x, std::size_t axes) {
  static_assert(X::static_layout != xt::layout_type::column_major, "qkgeom reads row-major xtensor containers");
  require(x.dimension() == axes, function, ": the tensor has ", x.dimension(), " axes instead of ", axes);
  require(x.shape(axes - 1) < 2 || stride_of(x, axes - 1) == 1, function, ": the values along the last axis lie ",
          stride_of(x, axes - 1), " apart instead of 1");
  return x.data() + x.data_offset();
}

}  // namespace detail

/// Zero-copy view of a row-major xtensor container of rank 1, or of a view of one (xt::view). Throws if it has another
/// rank or its values do not follow one another. A column-major container is refused at compile time; so is a temporary
/// one, which a view would outlive.
template <class C>
auto as_vector(const C& x) {
  const auto* const first = detail::first_value("as_vector", x, 1);
  return vector_view<const typename C::value_type>{first, static_cast<index_t>(x.size())};
}
template <class C>
void as_vector(const C&& temporary) requires detail::holds_values<C>
= delete;

/// The same of rank 2: (rows, cols). The values of a row must follow one another, the rows need not.
template <class C>
auto as_matrix(const C& x) requires requires {
  C::static_layout;
}
{
  const auto* const first = detail::first_value("as_matrix", x, 2);
  const auto rows = static_cast<index_t>(x.shape(0)), cols = static_cast<index_t>(x.shape(1));
  return matrix_view<const typename C::value_type>{first, rows, cols, rows > 1 ? detail::stride_of(x, 0) : cols};
}
template <class C>
void as_matrix(const C&& temporary) requires detail::holds_values<C>
= delete;

/// The same of rank 3: (rows, heads, dim). The values of a head must follow one another.
template <class C>
auto as_tensor(const C& x) {
  const auto* const first = detail::first_value("as_tensor", x, 3);
  const auto rows = static_cast<index_t>(x.shape(0)), heads = static_cast<index_t>(x.shape(1)),
             dim = static_cast<index_t>(x.shape(2));
  return tensor_view<const typename C::value_type>{first,
                                                   rows,
                                                   heads,
                                                   dim,
                                                   rows > 1 ? detail::stride_of(x, 0) : heads * dim,
                                                   heads > 1 ? detail::stride_of(x, 1) : dim};
}
template <class C>
void as_tensor(const C&& temporary) requires detail::holds_values<C>
= delete;

/// A result vector as an N-d xtensor expression, without a copy; valid as long as the vector.
template <std::size_t N>
auto as_xtensor(const std::vector<double>& values, const std::array<std::size_t, N>& shape) {
  return xt::adapt(values.data(), values.size(), xt::no_ownership(), shape);
}
template <std::size_t N>
void as_xtensor(const std::vector<double>&& temporary, const std::array<std::size_t, N>& shape) = delete;

/// Means of a plasticity heatmap (key distance, query distance); NaN where no pair falls.
template <class Heatmap>
xt::xtensor<double, 2> as_xtensor(const Heatmap& map) requires requires {
  map.mean(map.width, map.width);
}
{
  xt::xtensor<double, 2> mean({static_cast<std::size_t>(map.width), static_cast<std::size_t>(map.width)});
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j)
      mean(static_cast<std::size_t>(i), static_cast<std::size_t>(j)) = map.mean(i, j);
  return mean;
}

}  // namespace qkgeom
