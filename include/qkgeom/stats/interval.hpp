// SPDX-License-Identifier: MIT
#pragma once

#include <boost/math/distributions/students_t.hpp>
#include <limits>

namespace qkgeom {

/// How many standard errors an interval reaches to each side so that it misses the truth with probability `miss`: the
/// quantile of Student's t with the error's degrees of freedom. At the default, the 95 % interval, it is 4.30 for an
/// error over three documents, 2.20 over twelve, 1.96 in the limit. NaN without freedom.
inline double interval_factor(double freedom, double miss = 0.05) {
  if (!(freedom >= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (!(miss > 0)) return std::numeric_limits<double>::infinity();
  return boost::math::quantile(boost::math::complement(boost::math::students_t(freedom), 0.5 * miss));
}

/// Half the width of the interval of an `estimate` or `head_estimate` over documents; NaN without an error.
template <class Estimate>
double half_width(const Estimate& e, double miss = 0.05) {
  return interval_factor(e.freedom, miss) * e.error;
}

}  // namespace qkgeom
