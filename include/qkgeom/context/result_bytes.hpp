// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/bytes.hpp"

namespace qkgeom {

/// The members of a context's results, for `bytes_of`.
template <class F>
void with_members(some<row_moments> auto& x, const F& f) {
  auto& [count, mean_t, tt, mean, xt, xx] = x;
  f(count, mean_t, tt, mean, xt, xx);
}
template <class F>
void with_members(some<side_moments> auto& x, const F& f) {
  auto& [total, bucket] = x;
  f(total, bucket);
}
template <class F>
void with_members(some<eigen_system> auto& x, const F& f) {
  auto& [values, vectors] = x;
  f(values, vectors);
}
template <class F>
void with_members(some<semidefinite_root> auto& x, const F& f) {
  auto& [rank, factor] = x;
  f(rank, factor);
}
template <class F>
void with_members(some<heatmap_terms> auto& x, const F& f) {
  auto& [groups, weight, weight_square, sum, square, product] = x;
  f(groups, weight, weight_square, sum, square, product);
}
template <class F>
void with_members(some<pair_sums> auto& x, const F& f) {
  auto& [distributions, groups, sum, weight, pairs, width, heat_sum, heat_weight, drawn, square, term_sum, cells] = x;
  f(distributions, groups, sum, weight, pairs, width, heat_sum, heat_weight, drawn, square, term_sum, cells);
}

}  // namespace qkgeom
