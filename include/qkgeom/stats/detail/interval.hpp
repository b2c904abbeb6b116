// SPDX-License-Identifier: MIT
#pragma once

#include <boost/math/distributions/students_t.hpp>
#include <limits>

#include "qkgeom/stats/interval.hpp"

namespace qkgeom {

QKGEOM_INLINE double interval_factor(double freedom, double miss) {
  if (!(freedom >= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (!(miss > 0)) return std::numeric_limits<double>::infinity();
  return boost::math::quantile(boost::math::complement(boost::math::students_t(freedom), 0.5 * miss));
}

}  // namespace qkgeom
