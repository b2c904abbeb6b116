// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>
#include <limits>

#include "qkgeom/stats/interval.hpp"

namespace qkgeom {

QKGEOM_INLINE double interval_factor(double freedom, double miss) {
  if (!(freedom >= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (!(miss > 0)) return std::numeric_limits<double>::infinity();
  return boost::math::quantile(boost::math::complement(boost::math::students_t(freedom), 0.5 * miss));
}

QKGEOM_INLINE double two_sided_p(double value, double error, double freedom) {
  if (std::isnan(value) || std::isnan(error) || !(freedom >= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (error == 0) return value == 0 ? 1 : 0;
  return 2 * boost::math::cdf(boost::math::complement(boost::math::students_t(freedom), std::abs(value / error)));
}

QKGEOM_INLINE std::vector<double> false_discovery_rates(const std::vector<double>& p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (!std::isnan(p[i])) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] < p[b]; });
  auto rate = p;
  double least = 1;
  for (std::size_t rank = order.size(); rank > 0; --rank) {
    least = std::min(least, p[order[rank - 1]] * static_cast<double>(order.size()) / static_cast<double>(rank));
    rate[order[rank - 1]] = least;
  }
  return rate;
}

}  // namespace qkgeom
