// SPDX-License-Identifier: MIT
#include "qkgeom/adapt/xtensor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/common/refusal.hpp"

namespace {

using namespace qkgeom;

template <class X>
concept viewed_as_matrix = requires(X&& x) {
  as_matrix(std::forward<X>(x));
};

TEST(adapt, xtensor_containers) {
  xt::xtensor<float, 3> x({4, 2, 3});
  for (std::size_t i = 0; i < x.size(); ++i) x.flat(i) = static_cast<float>(i);
  const auto v = as_tensor(x);
  EXPECT_EQ(v.data, x.data());
  EXPECT_EQ(v.head(1)(2, 0), x(2, 1, 0));
  xt::xarray<double> m = xt::xarray<double>::from_shape({2, 3});
  EXPECT_EQ(as_matrix(m).cols, 3);
  EXPECT_THROW(as_tensor(m), error);
  const std::vector<double> values{1, 2, 3, 4};
  EXPECT_EQ(as_xtensor<2>(values, {2, 2})(1, 0), 3);
}

TEST(adapt, xtensor_views_are_the_rows_that_they_show) {
  xt::xtensor<float, 3> x({4, 2, 3});
  for (std::size_t i = 0; i < x.size(); ++i) x.flat(i) = static_cast<float>(i);
  const auto second = xt::view(x, 1);  // (2, 3)
  const auto matrix = as_matrix(second);
  EXPECT_EQ(&matrix(0, 0), &x(1, 0, 0));
  EXPECT_EQ(&matrix(1, 2), &x(1, 1, 2));
  const auto later = as_tensor(xt::view(x, xt::range(1, 4), xt::all(), xt::range(1, 3)));
  EXPECT_EQ(later.rows, 3);
  EXPECT_EQ(later.dim, 2);
  EXPECT_EQ(&later.head(1)(2, 1), &x(3, 1, 2));
  const auto one_head = as_matrix(xt::view(x, xt::all(), 1, xt::all()));
  EXPECT_EQ(&one_head(3, 2), &x(3, 1, 2));
  EXPECT_EQ(as_vector(xt::view(x, 2, 1, xt::range(1, 3)))[1], x(2, 1, 2));
  EXPECT_QKGEOM_ERROR("along the last axis", as_vector(xt::view(x, xt::all(), 0, 0)));
  EXPECT_QKGEOM_ERROR("along the last axis", as_matrix(xt::view(x, 0, xt::all(), xt::range(0, 3, 2))));
}

TEST(adapt, xtensor_temporaries_are_viewed_if_they_own_nothing) {
  using matrix = xt::xtensor<float, 2>;
  using row_range = decltype(xt::view(std::declval<matrix&>(), xt::range(0, 1)));
  using adapted = decltype(xt::adapt(std::declval<std::vector<float>&>(), std::array<std::size_t, 2>{2, 2}));
  static_assert(viewed_as_matrix<matrix&> && viewed_as_matrix<const matrix&> && !viewed_as_matrix<matrix>);
  static_assert(viewed_as_matrix<row_range> && viewed_as_matrix<adapted>);
  static_assert(!viewed_as_matrix<decltype(xt::view(std::declval<matrix>(), xt::range(0, 1)))>);
}

}  // namespace
