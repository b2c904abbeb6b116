// SPDX-License-Identifier: MIT
// Moments by their definition, and how near to others they are.
#pragma once

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/view.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// The definition, in long double, straight from the rows.
template <class T>
row_moments brute_force(const matrix_view<const T>& x, const vector_view<const std::int32_t>& t, index_t low,
                        index_t high) {
  const auto d = static_cast<std::size_t>(x.cols);
  std::vector<long double> mean(d), xt(d), xx(d * d);
  long double n = 0, mean_t = 0, tt = 0;
  const auto inside = [&](index_t i) { return t[i] >= low && t[i] < high; };
  for (index_t i = 0; i < x.rows; ++i)
    if (inside(i)) {
      ++n;
      mean_t += t[i];
      for (std::size_t c = 0; c < d; ++c) mean[c] += static_cast<double>(x(i, static_cast<index_t>(c)));
    }
  mean_t /= n;
  for (auto& m : mean) m /= n;
  for (index_t i = 0; i < x.rows; ++i)
    if (inside(i)) {
      tt += (t[i] - mean_t) * (t[i] - mean_t);
      for (std::size_t a = 0; a < d; ++a) {
        const long double u = static_cast<double>(x(i, static_cast<index_t>(a))) - mean[a];
        xt[a] += u * (t[i] - mean_t);
        for (std::size_t b = 0; b < d; ++b)
          xx[a * d + b] += u * (static_cast<double>(x(i, static_cast<index_t>(b))) - mean[b]);
      }
    }
  row_moments m{static_cast<index_t>(n), static_cast<double>(mean_t), static_cast<double>(tt), {}, {}, {}};
  for (const auto v : mean) m.mean.push_back(static_cast<double>(v));
  for (const auto v : xt) m.xt.push_back(static_cast<double>(v));
  for (const auto v : xx) m.xx.push_back(static_cast<double>(v));
  return m;
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
