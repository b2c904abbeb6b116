// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <vector>

#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::examples {

/// A sum of squares and how many there are; NaN counts as absent.
struct mean_square {
  double sum = 0, count = 0;
  /// Adds x, less its error if it has one, since noise adds to squares.
  void add(double x, double error = 0) {
    if (std::isnan(x)) return;
    sum += x * x - (std::isnan(error) ? 0 : error * error);
    ++count;
  }
  double value() const { return sum / count; }
};

/// How an error grows with the factor of a prediction: each doubling adds an error of its own, so that variances grow
/// with the number of doublings (docs/long-from-short.md has the coverage of this and of linear growth).
inline double growth_of_error(double factor) { return std::sqrt(std::log2(factor)); }

/// Another rotary embedding counts as this factor of the context, at least.
inline constexpr double factor_of_other_embedding = 2;
inline constexpr const char* note_on_other_embedding =
    "another embedding also moves what earlier layers hand on; only the first layer is exact";

/// So many misses of its own does a head count as having from the other heads of its kind.
inline constexpr double shared_misses = 8;

/// Intervals hold nine tenths: the misses of one capture do not tell more.
inline constexpr double interval_miss = 0.1;

/// What predictions of one number miss of each head.
struct head_misses {
  std::vector<double> factors;              ///< above 1
  std::vector<std::vector<estimate>> miss;  ///< (factors)(heads): predicted less actual, NaN without a value
  std::vector<bool> rope;                   ///< (heads)
};

/// Widens the errors of predictions at `factor`. The variance is that of the prediction over documents and, times the
/// square of `growth_of_error`, the mean over the factors of the check of (miss / growth)^2: the head's own, together
/// with the mean over heads of its kind (RoPE or NoPE) as `shared_misses` further misses; errors of misses are taken
/// off. The degrees of freedom are the misses of its kind. Errors are NaN where the check has no miss.
std::vector<estimate> widened(std::vector<estimate> predicted, const head_misses& check, double factor);

}  // namespace qkgeom::examples
