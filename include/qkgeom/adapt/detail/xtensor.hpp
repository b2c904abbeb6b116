// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
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

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::detail {

/// Whether an xtensor expression owns its values, so that a view of a temporary would dangle.
template <class X>
inline constexpr bool holds_values = false;
template <class Values, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool holds_values<xt::xtensor_container<Values, N, L, Tag>> = true;
template <class Values, xt::layout_type L, class Shape, class Tag>
inline constexpr bool holds_values<xt::xarray_container<Values, L, Shape, Tag>> = true;
template <class Of, class... Slices>
inline constexpr bool holds_values<xt::xview<Of, Slices...>> = holds_values<Of>;

/// Returns the stride of an axis, in values.
template <class X>
index_t stride_of(const X& x, std::size_t axis) {
  return x.strides()[axis];
}

/// Returns the first value of a container or view of `axes` axes. Throws unless the last axis is contiguous.
template <class X>
const typename X::value_type* first_value(const char* function, const X& x, std::size_t axes) {
  static_assert(X::static_layout != xt::layout_type::column_major, "qkgeom reads row-major xtensor containers");
  require(x.dimension() == axes, function, ": the tensor has ", x.dimension(), " axes instead of ", axes);
  require(x.shape(axes - 1) < 2 || stride_of(x, axes - 1) == 1, function, ": the values along the last axis lie ",
          stride_of(x, axes - 1), " apart instead of 1");
  return x.data() + x.data_offset();
}

}  // namespace qkgeom::detail
