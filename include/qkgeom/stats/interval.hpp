// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Returns how many standard errors an interval extends to each side so that it misses the truth with probability
/// `miss`: the quantile of Student's t with the error's degrees of freedom. For the default, the 95 % interval, it is
/// 4.30 for an error over three documents, 2.20 over twelve, 1.96 in the limit. NaN without freedom.
QKGEOM_INLINE double interval_factor(double freedom, double miss = 0.05);

/// Returns half the width of the interval of an `estimate` or `head_estimate` over documents; NaN without an error.
template <class Estimate>
double half_width(const Estimate& e, double miss = 0.05) {
  return interval_factor(e.freedom, miss) * e.error;
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/stats/detail/interval.hpp"
#endif
