// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

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

/// Returns the probability of a value at least as far from 0, to either side, if the truth is 0: Student's t with the
/// error's degrees of freedom. NaN without an error.
QKGEOM_INLINE double two_sided_p(double value, double error, double freedom);

/// Adjusts the p of many tests (NaN: no test): among tests with an adjusted p below q, at most the share q is false on
/// average (Benjamini and Hochberg 1995).
QKGEOM_INLINE std::vector<double> false_discovery_rates(const std::vector<double>& p);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/stats/detail/interval.hpp"
#endif
