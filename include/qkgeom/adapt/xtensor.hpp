// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <vector>
#include <xtensor/xadapt.hpp>
#include <xtensor/xlayout.hpp>
#include <xtensor/xtensor.hpp>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Zero-copy view of a row-major xtensor container of rank 1. A column-major or strided one is refused at compile time.
template <class C>
auto as_vector(const C& x) {
  static_assert(C::static_layout == xt::layout_type::row_major, "qkgeom reads row-major xtensor containers");
  require(x.dimension() == 1, "as_vector: the tensor has ", x.dimension(), " axes instead of 1");
  return vector_view<const typename C::value_type>{x.data(), static_cast<index_t>(x.size())};
}

/// The same of rank 2: (rows, cols).
template <class C>
auto as_matrix(const C& x) requires requires {
  C::static_layout;
}
{
  static_assert(C::static_layout == xt::layout_type::row_major, "qkgeom reads row-major xtensor containers");
  require(x.dimension() == 2, "as_matrix: the tensor has ", x.dimension(), " axes instead of 2");
  const auto rows = static_cast<index_t>(x.shape(0)), cols = static_cast<index_t>(x.shape(1));
  return matrix_view<const typename C::value_type>{x.data(), rows, cols, cols};
}

/// The same of rank 3: (rows, heads, dim).
template <class C>
auto as_tensor(const C& x) {
  static_assert(C::static_layout == xt::layout_type::row_major, "qkgeom reads row-major xtensor containers");
  require(x.dimension() == 3, "as_tensor: the tensor has ", x.dimension(), " axes instead of 3");
  return packed_tensor<const typename C::value_type>(
      x.data(), static_cast<index_t>(x.shape(0)), static_cast<index_t>(x.shape(1)), static_cast<index_t>(x.shape(2)));
}

/// A result vector as an N-d xtensor expression, without a copy; valid as long as the vector.
template <std::size_t N>
auto as_xtensor(const std::vector<double>& values, const std::array<std::size_t, N>& shape) {
  return xt::adapt(values.data(), values.size(), xt::no_ownership(), shape);
}

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
