// SPDX-License-Identifier: MIT
#include "qkgeom/adapt/span.hpp"

#include <Eigen/Dense>

#include "qkgeom/adapt/eigen.hpp"
#include "qkgeom/adapt/xtensor.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

template <class X>
concept viewed_as_vector = requires(X&& x) {
  as_view(std::forward<X>(x));
};
template <class X>
concept cut_into_rows = requires(X&& x) {
  as_matrix(std::forward<X>(x), index_t{2});
};

TEST(adapt, spans_and_vectors) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(as_matrix(x, 2)(2, 1), 6);
  EXPECT_EQ(as_view(std::span<const float>(x)).size, 6);
  std::vector<float> y{1, 2, 3, 4};
  const std::span<float> of_y(y);
  EXPECT_EQ(as_view(of_y).data, y.data());
  EXPECT_EQ(as_matrix(of_y, 2)(1, 0), 3);
  EXPECT_EQ(as_view(std::span<float, 2>(y.data(), 2)).size, 2);
  EXPECT_THROW(as_matrix(x, 4), error);
}

TEST(adapt, spans_are_viewed_and_temporary_vectors_are_not) {
  using vector = std::vector<float>;
  static_assert(viewed_as_vector<vector&> && viewed_as_vector<const vector&> && !viewed_as_vector<vector> &&
                !viewed_as_vector<const vector>);
  static_assert(viewed_as_vector<std::span<float>> && viewed_as_vector<std::span<const float>> &&
                viewed_as_vector<std::span<float, 4>>);
  static_assert(cut_into_rows<const vector&> && !cut_into_rows<vector> && cut_into_rows<std::span<float>>);
}

using rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class X>
concept viewed = requires(X&& x) {
  as_view(std::forward<X>(x));
};

TEST(adapt, eigen_matrices_and_blocks_are_viewed_in_place) {
  rows m = rows::Random(6, 5);
  const auto v = as_view(m);
  EXPECT_EQ(v.data, m.data());
  EXPECT_EQ(v(3, 4), m(3, 4));
  const auto block = as_view(m.block(1, 2, 3, 2));
  EXPECT_EQ(block.rows, 3);
  EXPECT_EQ(block.row_stride, 5);
  EXPECT_EQ(&block(2, 1), &m(3, 3));
  const Eigen::VectorXi t = Eigen::VectorXi::LinSpaced(6, 0, 5);
  EXPECT_EQ(as_view(t).data, t.data());
  const std::vector<double> values{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(as_eigen(values, 3)(1, 0), 4);
  EXPECT_EQ(as_eigen(values).data(), values.data());
  EXPECT_QKGEOM_ERROR("as_eigen:", as_eigen(values, 0));
  EXPECT_QKGEOM_ERROR("as_eigen:", as_eigen(values, 4));
}

TEST(adapt, eigen_rows_with_gaps_between_their_entries_are_refused) {
  using strided = Eigen::Map<rows, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_QKGEOM_ERROR("2 apart instead of 1", as_view(strided(x.data(), 2, 2, {4, 2})));
  EXPECT_EQ(as_view(strided(x.data(), 2, 2, {4, 1}))(1, 1), 6);
}

TEST(adapt, eigen_temporaries_are_viewed_if_they_own_nothing) {
  static_assert(viewed<rows&> && viewed<const rows&> && !viewed<rows> && !viewed<const rows>);
  static_assert(viewed<Eigen::VectorXd&> && !viewed<Eigen::VectorXd>);
  static_assert(viewed<Eigen::Map<const rows>> && viewed<Eigen::Block<rows>>);
}

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
