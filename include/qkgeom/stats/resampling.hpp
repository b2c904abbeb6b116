// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/stats/association.hpp"

namespace qkgeom {

/// A test visits all arrangements if there are at most `max_exact` (9! = 362880), else `draws` random ones.
struct permutation_options {
  std::size_t max_exact = 400000;
  std::size_t draws = 100000;
  std::uint64_t seed = 0;
};

struct permutation_test {
  std::size_t n = 0;
  double estimate = 0;
  double p = 0;                  ///< share of arrangements at least as extreme; drawn: (1 + count) / (1 + draws)
  double standard_error = 0;     ///< standard error of p; 0 if exact
  std::size_t arrangements = 0;  ///< arrangements visited
  bool exact = true;
};

struct bootstrap_options {
  std::size_t draws = 10000;
  double level = 0.95;
  std::uint64_t seed = 0;
};

/// Percentile interval over resampled rows; NaN if no resample has a value.
struct bootstrap_interval {
  std::size_t n = 0;
  double estimate = 0, low = 0, high = 0;
  std::size_t draws = 0, without_value = 0;  ///< resamples; resamples without a value, since their rows are all equal
};

/// Lowest and highest value of a statistic when one row is left out, and the row left out in each case.
struct leave_one_out_range {
  double low = 0, high = 0;
  std::size_t low_without = 0, high_without = 0;
};

/// Tests `statistic(arrangement)` by permutation: compares its value for `values` as they are with its values for every
/// distinct arrangement of `values`, or for random ones. Two-sided compares absolute values.
template <class T, class Statistic>
permutation_test permute(const std::vector<T>& values, bool two_sided, const permutation_options& options,
                         const Statistic& statistic);

/// Tests the association of x and y, both (n), by a two-sided permutation test.
inline permutation_test test_association(association kind, const std::vector<double>& x, const std::vector<double>& y,
                                         const permutation_options& options = {}) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return permute(order, true, options, ordered_association(kind, x, y));
}

/// Returns the percentile interval of `statistic(rows)`, where `rows` are n indices drawn with replacement.
template <class Statistic>
bootstrap_interval bootstrap(std::size_t n, const bootstrap_options& options, const Statistic& statistic);

inline std::vector<double> rows_of(const std::vector<double>& column, const std::vector<std::size_t>& rows) {
  std::vector<double> taken(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) taken[i] = column[rows[i]];
  return taken;
}

/// Returns the percentile interval of the association of x and y, both (n).
inline bootstrap_interval bootstrap_association(association kind, const std::vector<double>& x,
                                                const std::vector<double>& y, const bootstrap_options& options = {}) {
  return bootstrap(x.size(), options, [&](const std::vector<std::size_t>& rows) {
    return associate(kind, rows_of(x, rows), rows_of(y, rows));
  });
}

/// Returns the range of the association of x and y (n) without one row each; NaN without a value. Throws if n < 3.
inline leave_one_out_range leave_one_out(association kind, const std::vector<double>& x, const std::vector<double>& y) {
  require(x.size() >= 3, "leaving one row out needs three or more, not ", x.size());
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  leave_one_out_range range{.low = none, .high = none};
  for (std::size_t out = 0; out < x.size(); ++out) {
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (i != out) rows.push_back(i);
    const double r = associate(kind, rows_of(x, rows), rows_of(y, rows));
    if (std::isnan(r)) continue;
    if (!(r >= range.low)) range.low = r, range.low_without = out;
    if (!(r <= range.high)) range.high = r, range.high_without = out;
  }
  return range;
}

/// Compares the associations of two columns with y: |r(first, y)| - |r(second, y)|.
struct predictor_comparison {
  std::size_t n = 0;
  double first = 0, second = 0;   ///< associations with y, signed
  double difference = 0;          ///< of their absolute values
  permutation_test by_order{};    ///< y in every order. Null hypothesis: neither column is associated with y
  permutation_test by_swap{};     ///< columns swapped in sets of rows. Null hypothesis: both predict y equally well
  bootstrap_interval interval{};  ///< of the difference
};

/// Compares two predictors of y; all columns are (n). Before a swap both columns are ranked or standardised and signed
/// to increase with y. Throws for Kendall and for columns without variance.
inline predictor_comparison compare_predictors(association kind, const std::vector<double>& first,
                                               const std::vector<double>& second, const std::vector<double>& y,
                                               const permutation_options& options = {},
                                               const bootstrap_options& resampling = {});

}  // namespace qkgeom

#include "qkgeom/stats/detail/resampling.hpp"
