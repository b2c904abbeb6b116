// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <vector>

#include "qkgeom/adapt/detail/xtensor.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Views a row-major xtensor container or xt::view of rank 1 without copying. Throws if the rank differs or the values
/// are not contiguous. Column-major and temporary containers do not compile.
template <class C>
auto as_vector(const C& x) {
  const auto* const first = detail::first_value("as_vector", x, 1);
  return vector_view<const typename C::value_type>{first, static_cast<index_t>(x.size())};
}
template <class C>
void as_vector(const C&& temporary) requires detail::holds_values<C>
= delete;

/// Views rank 2 as (rows, cols). The values of a row must be contiguous, the rows need not.
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

/// Views rank 3 as (rows, heads, dim). The values of a head must be contiguous.
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

/// Views a result vector as an N-d xtensor expression, valid as long as the vector.
template <std::size_t N>
auto as_xtensor(const std::vector<double>& values, const std::array<std::size_t, N>& shape) {
  return xt::adapt(values.data(), values.size(), xt::no_ownership(), shape);
}
template <std::size_t N>
void as_xtensor(const std::vector<double>&& temporary, const std::array<std::size_t, N>& shape) = delete;

/// Returns the means of a plasticity heatmap (key distance, query distance); NaN where no pair falls.
template <class Heatmap>
xt::xtensor<double, 2> as_xtensor(const Heatmap& map) requires requires {
  map.mean(map.width, map.width);
}
{
  const auto width = static_cast<std::size_t>(map.width);
  xt::xtensor<double, 2> mean({width, width});
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t j = 0; j < width; ++j) mean(i, j) = map.mean(i, j);
  return mean;
}

}  // namespace qkgeom
