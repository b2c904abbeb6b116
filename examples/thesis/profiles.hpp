// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

/// What printed digits cannot tell apart: two means of three decimals differ by rounding up to this much.
inline constexpr double printed_step = 0.001;

inline double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

/// The largest step upwards from one entry to the next, 0 where none rises.
inline double largest_rise(const std::vector<double>& profile) {
  double rise = 0;
  for (std::size_t i = 1; i < profile.size(); ++i) rise = std::max(rise, profile[i] - profile[i - 1]);
  return rise;
}

/// A profile that dips, recovers and falls again (6.2.1), of ten deciles without errors: the peak is the largest in
/// 50-90 % of the context, the dip the smallest before it from 30 % on, the end the smallest after it.
struct decile_recovery {
  double rise = 0, fall = 0;
  std::size_t dip = 0, peak = 0;  ///< deciles, from 0

  bool shows(double least) const { return rise > least && fall > least; }
};

inline decile_recovery recovery_of(const std::vector<double>& d) {
  const auto at = [&](auto it) { return static_cast<std::size_t>(it - d.begin()); };
  decile_recovery r;
  r.peak = at(std::max_element(d.begin() + 5, d.begin() + 9));
  const auto peak = d.begin() + static_cast<std::ptrdiff_t>(r.peak);
  r.dip = at(std::min_element(d.begin() + 3, peak));
  r.rise = d[r.peak] - d[r.dip];
  r.fall = d[r.peak] - *std::min_element(peak + 1, d.end());
  return r;
}

/// Mean of the deciles over [from, to) tokens of a context of `length`, each by the part of it that lies there.
inline double decile_mean(const std::vector<double>& deciles, double length, double from, double to) {
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < deciles.size(); ++i) {
    const double low = length * static_cast<double>(i) / 10, high = length * static_cast<double>(i + 1) / 10;
    const double part = std::max(0.0, std::min(high, to) - std::max(low, from));
    sum += part * deciles[i];
    weight += part;
  }
  return weight > 0 ? sum / weight : unknown;
}

/// The decile in which positions just below `at` lie: what the published tables have for "the bucket that ends at l".
inline double decile_ending(const std::vector<double>& deciles, double length, double at) {
  if (at > length || deciles.empty()) return unknown;
  const auto i = static_cast<std::size_t>(std::ceil(10 * at / length - 1e-9)) - 1;
  return deciles[std::min<std::size_t>(i, 9)];
}

}  // namespace qkgeom::examples::thesis
