// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/quantile.hpp"

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

namespace detail {

/// Layers of this file's streams of draw::permutation.
inline constexpr std::uint32_t permuted_rows = 1, swapped_columns = 2, resampled_rows = 3;

/// Counts statistics at least as extreme as the observed one.
class tail_count {
 public:
  tail_count(double observed, bool two_sided) : observed_(reach(observed, two_sided)), two_sided_(two_sided) {}
  void add(double value) {
    ++visited_;
    // A tie counts; 1e-10 covers the rounding of sums in another order.
    count_ += reach(value, two_sided_) >= observed_ - 1e-10;
  }
  permutation_test result(std::size_t n, double estimate, bool exact) const {
    permutation_test t{.n = n, .estimate = estimate, .arrangements = visited_, .exact = exact};
    const double seen = static_cast<double>(visited_), count = static_cast<double>(count_);
    t.p = std::isnan(estimate) ? estimate : exact ? count / seen : (1 + count) / (1 + seen);
    t.standard_error = exact ? 0 : std::sqrt(t.p * (1 - t.p) / seen);
    return t;
  }

 private:
  static double reach(double v, bool two_sided) { return two_sided ? std::abs(v) : v; }
  double observed_;
  bool two_sided_;
  std::size_t visited_ = 0, count_ = 0;
};

/// Puts `values` in the i-th random order (Fisher and Yates).
template <class T>
void shuffle(std::vector<T>& values, std::uint64_t i, std::uint64_t seed) {
  const random_stream stream{seed, 0, permuted_rows, draw::permutation};
  for (std::size_t k = values.size(); k > 1; --k)
    std::swap(values[k - 1], values[stream.below(i * values.size() + k - 1, k)]);
}

}  // namespace detail

/// Tests `statistic(arrangement)` by permutation: compares its value for `values` as they are with its values for every
/// distinct arrangement of `values`, or for random ones. Two-sided compares absolute values.
template <class T, class Statistic>
permutation_test permute(const std::vector<T>& values, bool two_sided, const permutation_options& options,
                         const Statistic& statistic) {
  const double estimate = statistic(values);
  detail::tail_count tail(estimate, two_sided);
  auto arrangement = values;
  std::sort(arrangement.begin(), arrangement.end());
  double count = 1;  // n! / product of (times a value occurs)!
  for (std::size_t i = 0, same = 0; i < arrangement.size(); ++i) {
    same = i > 0 && arrangement[i] == arrangement[i - 1] ? same + 1 : 1;
    count *= static_cast<double>(i + 1) / static_cast<double>(same);
  }
  const bool exact = count <= static_cast<double>(options.max_exact) + 0.5;
  if (exact) {
    do tail.add(statistic(arrangement));
    while (std::next_permutation(arrangement.begin(), arrangement.end()));
  } else {
    for (std::uint64_t i = 0; i < options.draws; ++i) {
      detail::shuffle(arrangement, i, options.seed);
      tail.add(statistic(arrangement));
    }
  }
  return tail.result(values.size(), estimate, exact);
}

/// Tests the association of x and y, both (n), by a two-sided permutation test.
inline permutation_test test_association(association kind, const std::vector<double>& x, const std::vector<double>& y,
                                         const permutation_options& options = {}) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return permute(order, true, options, ordered_association(kind, x, y));
}

/// Returns the percentile interval of `statistic(rows)`, where `rows` are n indices drawn with replacement.
template <class Statistic>
bootstrap_interval bootstrap(std::size_t n, const bootstrap_options& options, const Statistic& statistic) {
  std::vector<std::size_t> rows(n);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  bootstrap_interval result{.n = n, .estimate = statistic(rows), .draws = options.draws};
  const random_stream stream{options.seed, 0, detail::resampled_rows, draw::permutation};
  std::vector<double> values;
  for (std::uint64_t i = 0; i < options.draws; ++i) {
    for (std::size_t k = 0; k < n; ++k) rows[k] = stream.below(i * n + k, n);
    const double v = statistic(rows);
    if (!std::isnan(v)) values.push_back(v);
  }
  std::sort(values.begin(), values.end());
  result.without_value = options.draws - values.size();
  result.low = quantile_of_sorted(values, 0.5 * (1 - options.level));
  result.high = quantile_of_sorted(values, 0.5 * (1 + options.level));
  return result;
}

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
                                               const bootstrap_options& resampling = {}) {
  require(kind != association::kendall, "predictors are compared by Pearson's or Spearman's coefficient");
  predictor_comparison c{.n = y.size(), .first = associate(kind, first, y), .second = associate(kind, second, y)};
  c.difference = std::abs(c.first) - std::abs(c.second);
  std::vector<std::size_t> order(y.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const ordered_association a(kind, first, y), b(kind, second, y);
  c.by_order = permute(order, true, options, [&](const auto& rows) { return std::abs(a(rows)) - std::abs(b(rows)); });

  const auto scores = [&](const std::vector<double>& x, double r) {
    auto u = detail::unit_deviations(kind == association::spearman ? mid_ranks(x) : x);
    for (double& v : u) v *= detail::sign(r);
    return u;
  };
  const auto u = scores(first, c.first), v = scores(second, c.second);
  require(!u.empty() && !v.empty(), "predictors that do not vary cannot be compared");
  const auto y_scores = kind == association::spearman ? mid_ranks(y) : y;
  const auto swapped = [&](const auto& is_swapped) {
    auto p = u, q = v;
    for (std::size_t i = 0; i < p.size(); ++i)
      if (is_swapped(i)) std::swap(p[i], q[i]);
    return associate(association::pearson, p, y_scores) - associate(association::pearson, q, y_scores);
  };
  detail::tail_count tail(c.difference, true);
  const bool exact = y.size() < 40 && (std::uint64_t{1} << y.size()) <= options.max_exact;
  const std::uint64_t sets = exact ? std::uint64_t{1} << y.size() : options.draws;
  const random_stream stream{options.seed, 0, detail::swapped_columns, draw::permutation};
  for (std::uint64_t s = 0; s < sets; ++s)
    tail.add(
        swapped([&](std::size_t i) { return exact ? (s >> i & 1) != 0 : stream.below(s * y.size() + i, 2) == 1; }));
  c.by_swap = tail.result(y.size(), c.difference, exact);

  c.interval = bootstrap(y.size(), resampling, [&](const std::vector<std::size_t>& rows) {
    const auto target = rows_of(y, rows);
    return std::abs(associate(kind, rows_of(first, rows), target)) -
           std::abs(associate(kind, rows_of(second, rows), target));
  });
  return c;
}

}  // namespace qkgeom
