// SPDX-License-Identifier: MIT
// Moments by their definition, and how near to others they are.
#pragma once

#include <Eigen/Dense>

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/view.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// The definition, in long double, straight from the rows.
template <class T>
row_moments brute_force(const matrix_view<const T>& x, const vector_view<const std::int32_t>& t, index_t low,
                        index_t high) {
  using matrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  std::vector<index_t> inside;
  for (index_t i = 0; i < x.rows; ++i)
    if (t[i] >= low && t[i] < high) inside.push_back(i);
  const auto n = std::ssize(inside);
  matrix rows = matrix::NullaryExpr(n, x.cols, [&](auto i, auto c) { return static_cast<double>(x(inside[i], c)); });
  matrix at = matrix::NullaryExpr(n, 1, [&](auto i, auto) { return t[inside[i]]; });
  const matrix mean = rows.colwise().mean();
  const long double mean_t = at.mean();
  rows.rowwise() -= mean.row(0);
  at.array() -= mean_t;
  const auto list = [](const matrix& m) { return std::vector<double>(m.data(), m.data() + m.size()); };
  return {n,          static_cast<double>(mean_t), static_cast<double>(at.squaredNorm()),
          list(mean), list(rows.transpose() * at), list(rows.transpose() * rows)};
}

inline void expect_near(const row_moments& got, const row_moments& want, double bound) {
  ASSERT_EQ(got.count, want.count);
  EXPECT_NEAR(got.mean_t, want.mean_t, bound * std::abs(want.mean_t));
  EXPECT_NEAR(got.tt, want.tt, bound * want.tt);
  double trace = 0;
  for (index_t i = 0; i < want.dim(); ++i) trace += want.xx_diagonal(i);
  for (std::size_t i = 0; i < want.mean.size(); ++i) {
    EXPECT_NEAR(got.mean[i], want.mean[i], bound * (std::abs(want.mean[i]) + std::sqrt(trace)));
    EXPECT_NEAR(got.xt[i], want.xt[i], bound * std::sqrt(trace * want.tt));
    EXPECT_NEAR(got.xx_diagonal(static_cast<index_t>(i)), want.xx_diagonal(static_cast<index_t>(i)), bound * trace);
  }
  for (std::size_t i = 0; got.has_full_scatter() && i < want.xx.size(); ++i)
    EXPECT_NEAR(got.xx[i], want.xx[i], bound * trace);
}

}  // namespace qkgeom::test
