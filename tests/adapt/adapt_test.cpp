// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <xtensor/xarray.hpp>

#include "qkgeom/adapt/eigen.hpp"
#include "qkgeom/adapt/span.hpp"
#include "qkgeom/adapt/xtensor.hpp"

namespace {

using namespace qkgeom;
using rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

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
}

TEST(adapt, spans_and_vectors) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(as_matrix(x, 2)(2, 1), 6);
  EXPECT_EQ(as_view(std::span<const float>(x)).size, 6);
  EXPECT_THROW(as_matrix(x, 4), error);
}

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

}  // namespace
