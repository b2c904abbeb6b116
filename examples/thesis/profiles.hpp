// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "examples/thesis/published.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::examples::thesis {

inline double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

/// The largest rise from one entry to the next; 0 if none rises.
inline double largest_rise(const std::vector<double>& profile) {
  double rise = 0;
  for (std::size_t i = 1; i < profile.size(); ++i) rise = std::max(rise, profile[i] - profile[i - 1]);
  return rise;
}

/// Recovery (6.2.1) of a profile of ten deciles: the peak is the largest decile in 50-90 % of the context, the dip the
/// smallest between 30 % and the peak, the end the smallest after the peak.
struct decile_recovery {
  double rise = 0, fall = 0;
  std::size_t dip = 0, peak = 0;  ///< deciles, from 0

  bool shows(double threshold) const { return rise > threshold && fall > threshold; }
};

inline decile_recovery recovery_of(const std::vector<double>& d) {
  require(d.size() == 10, "a recovery is of ten deciles, not ", d.size());
  decile_recovery r;
  r.peak = std::max_element(d.begin() + 5, d.begin() + 9) - d.begin();
  const auto peak = d.begin() + static_cast<std::ptrdiff_t>(r.peak);
  r.dip = std::min_element(d.begin() + 3, peak) - d.begin();
  r.rise = d[r.peak] - d[r.dip];
  r.fall = d[r.peak] - *std::min_element(peak + 1, d.end());
  return r;
}

/// Mean of the deciles over [from, to) tokens of a context of `length` tokens, weighted by overlap.
inline double decile_mean(const std::vector<double>& deciles, double length, double from, double to) {
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < deciles.size(); ++i) {
    const double low = length * static_cast<double>(i) / 10, high = length * static_cast<double>(i + 1) / 10;
    const double overlap = std::max(0.0, std::min(high, to) - std::max(low, from));
    sum += overlap * deciles[i];
    weight += overlap;
  }
  return weight > 0 ? sum / weight : unknown;
}

/// The decile that holds the positions just below `end`; the published tables call it the bucket that ends there.
inline double decile_ending(const std::vector<double>& deciles, double length, double end) {
  if (end > length || deciles.empty()) return unknown;
  const auto i = static_cast<std::size_t>(std::ceil(10 * end / length - 1e-9)) - 1;
  return deciles[std::min<std::size_t>(i, 9)];
}

}  // namespace qkgeom::examples::thesis
