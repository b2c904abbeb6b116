// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom {

/// Slope of y on x and Pearson's r; NaN if x or y does not vary.
struct slope_and_correlation {
  std::size_t n = 0;
  double slope = std::numeric_limits<double>::quiet_NaN();
  double correlation = std::numeric_limits<double>::quiet_NaN();
};

/// Computes the least-squares slope of y on x and Pearson's r, x and y (n).
inline slope_and_correlation fit_slope(const std::vector<double>& x, const std::vector<double>& y) {
  slope_and_correlation s{.n = x.size()};
  if (x.size() < 2) return s;
  s.correlation = associate(association::pearson, x, y);
  const double n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n,
               mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double square = 0, product = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    square += (x[i] - mean_x) * (x[i] - mean_x);
    product += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!detail::unit_deviations(x).empty()) s.slope = product / square;
  return s;
}

/// Regression of y on x over all rows (pooled), over deviations from family means (within), and over family means
/// (between). Simpson's paradox: `pooled` and `within` have opposite signs.
struct family_decomposition {
  struct family {
    std::string name;
    double mean_x = 0, mean_y = 0;
    slope_and_correlation inside{};
  };
  slope_and_correlation pooled{}, within{}, between{};  ///< n of `within`: rows of families with two or more
  std::vector<family> families{};                       ///< in the order of their first row

  bool reverses() const { return pooled.correlation * within.correlation < 0; }
};

/// Decomposes the regression of y on x by the family of each row; all three (n). Throws `error` if lengths differ.
inline family_decomposition decompose_by_family(const std::vector<double>& x, const std::vector<double>& y,
                                                const std::vector<std::string>& family) {
  require(x.size() == y.size() && x.size() == family.size(), "families need as many names as x and y, not ",
          family.size(), " for ", x.size(), " and ", y.size());
  family_decomposition d{.pooled = fit_slope(x, y)};
  std::vector<double> within_x, within_y, mean_x, mean_y;
  for (std::size_t i = 0; i < family.size(); ++i) {
    const auto here = family.begin() + i;
    if (std::find(family.begin(), here, family[i]) != here) continue;
    std::vector<double> fx, fy;
    for (std::size_t j = i; j < family.size(); ++j)
      if (family[j] == family[i]) fx.push_back(x[j]), fy.push_back(y[j]);
    const double n = static_cast<double>(fx.size());
    family_decomposition::family f{.name = family[i], .inside = fit_slope(fx, fy)};
    f.mean_x = std::accumulate(fx.begin(), fx.end(), 0.0) / n;
    f.mean_y = std::accumulate(fy.begin(), fy.end(), 0.0) / n;
    const bool x_varies = !detail::unit_deviations(fx).empty(), y_varies = !detail::unit_deviations(fy).empty();
    for (std::size_t j = 0; fx.size() > 1 && j < fx.size(); ++j) {
      within_x.push_back(x_varies ? fx[j] - f.mean_x : 0.0);
      within_y.push_back(y_varies ? fy[j] - f.mean_y : 0.0);
    }
    mean_x.push_back(f.mean_x);
    mean_y.push_back(f.mean_y);
    d.families.push_back(std::move(f));
  }
  d.within = fit_slope(within_x, within_y);
  d.between = fit_slope(mean_x, mean_y);
  return d;
}

/// Tests whether families lie along x in a stated order, and whether they differ in x at all.
struct family_separation {
  std::size_t n = 0, families = 0;
  std::vector<double> means{};  ///< means of x per family, in the stated order
  bool means_in_order = false;
  std::size_t pairs = 0;        ///< pairs of rows of different families
  double in_order = 0;          ///< share of these pairs in the stated order; a tie counts one half
  bool overlap = false;         ///< true if a pair is in the opposite order
  permutation_test order{};     ///< test of `in_order` (Jonckheere and Terpstra), one-sided, permuting families
  permutation_test variance{};  ///< one-sided test of the share of x's variance between families, permuting families
};

/// Tests the order of families; `order` lists them from low x to high, x and family are (n). Throws `error` if `order`
/// lacks a row's family or lists a family without a row.
inline family_separation separate_families(const std::vector<double>& x, const std::vector<std::string>& family,
                                           const std::vector<std::string>& order,
                                           const permutation_options& options = {}) {
  require(x.size() == family.size(), "families need as many names as x, not ", family.size(), " for ", x.size());
  family_separation s{.n = x.size(), .families = order.size()};
  std::vector<std::size_t> label;
  for (const auto& name : family) {
    const auto place = std::find(order.begin(), order.end(), name);
    require(place != order.end(), "the order of families does not list ", name);
    label.push_back(place - order.begin());
  }
  for (const auto& name : order)
    require(std::find(family.begin(), family.end(), name) != family.end(), "no row is of the family ", name);
  const double all = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  const auto sums = [&](const std::vector<std::size_t>& labels) {
    std::vector<std::array<double, 2>> count_and_sum(order.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      count_and_sum[labels[i]][0] += 1;
      count_and_sum[labels[i]][1] += x[i] - all;
    }
    return count_and_sum;
  };
  for (const auto& [count, sum] : sums(label)) s.means.push_back(all + sum / count);
  s.means_in_order = std::is_sorted(s.means.begin(), s.means.end());
  const auto in_order = [&](const std::vector<std::size_t>& labels) {
    double right = 0, pairs = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x.size(); ++j)
        if (labels[i] < labels[j]) {
          pairs += 1;
          right += x[i] < x[j] ? 1 : x[i] == x[j] ? 0.5 : 0;
        }
    return right / pairs;
  };
  double square = 0;
  for (const double v : x) square += (v - all) * (v - all);
  const auto between = [&](const std::vector<std::size_t>& labels) {
    double share = 0;
    for (const auto& [count, sum] : sums(labels)) share += count > 0 ? sum * sum / count / square : 0;
    return share;
  };
  s.order = permute(label, false, options, in_order);
  s.variance = permute(label, false, options, between);
  s.in_order = s.order.estimate;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j)
      if (label[i] < label[j]) {
        ++s.pairs;
        s.overlap = s.overlap || x[i] > x[j];
      }
  return s;
}

/// Tests whether families rank alike by x and by y, over pairs of family means and pairs of rows of two families.
struct family_rank_agreement {
  std::size_t families = 0, pairs = 0, agree = 0;  ///< pairs of family means
  permutation_test means{};                        ///< Kendall's tau-b of the family means, two-sided
  std::size_t row_pairs = 0, rows_agree = 0;       ///< pairs of rows of different families
};

/// Compares the ranks by x and by y; x, y and the family of each row are (n). Throws as `decompose_by_family` does.
inline family_rank_agreement rank_agreement(const std::vector<double>& x, const std::vector<double>& y,
                                            const std::vector<std::string>& family,
                                            const permutation_options& options = {}) {
  const auto d = decompose_by_family(x, y, family);
  family_rank_agreement r{.families = d.families.size()};
  std::vector<double> mean_x, mean_y;
  for (const auto& f : d.families) mean_x.push_back(f.mean_x), mean_y.push_back(f.mean_y);
  for (std::size_t i = 0; i < mean_x.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      ++r.pairs;
      r.agree += (mean_x[i] - mean_x[j]) * (mean_y[i] - mean_y[j]) > 0;
    }
  r.means = test_association(association::kendall, mean_x, mean_y, options);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (family[i] != family[j]) {
        ++r.row_pairs;
        r.rows_agree += (x[i] - x[j]) * (y[i] - y[j]) > 0;
      }
  return r;
}

}  // namespace qkgeom
