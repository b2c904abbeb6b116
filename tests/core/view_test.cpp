// SPDX-License-Identifier: MIT
#include "qkgeom/core/view.hpp"

#include <gtest/gtest.h>

#include <type_traits>

#include "qkgeom/core/head.hpp"

namespace {

using namespace qkgeom;

TEST(view, spaces_do_not_convert) {
  using host = matrix_view<const float, memory_space::host>;
  using device = matrix_view<const float, memory_space::device>;
  static_assert(!std::is_convertible_v<host, device> && !std::is_convertible_v<device, host>);
  static_assert(!std::is_constructible_v<head_view<float, memory_space::device>, host>);
  static_assert(std::is_convertible_v<matrix_view<float>, matrix_view<const float>>);
  static_assert(!std::is_convertible_v<matrix_view<const float>, matrix_view<float>>);
}

}  // namespace
