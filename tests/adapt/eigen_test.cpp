// SPDX-License-Identifier: MIT
#include "qkgeom/adapt/eigen.hpp"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <utility>
#include <vector>

#include "tests/common/refusal.hpp"

namespace {

using namespace qkgeom;
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

}  // namespace
