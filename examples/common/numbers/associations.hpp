// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom::examples {

/// How a number goes with a score over models, by one coefficient.
struct score_association {
  std::string number, score;
  association kind{};
  permutation_test test{};
  bootstrap_interval interval{};
  leave_one_out_range range{};
  std::string without_low{}, without_high{};  ///< the models that are missing at the ends of `range`
};

/// Associates the number x with the score y of the models `labels`, all (n), by each coefficient.
inline std::vector<score_association> associations_of(const std::string& number, const std::string& score,
                                                      const std::vector<double>& x, const std::vector<double>& y,
                                                      const std::vector<std::string>& labels, std::uint64_t seed) {
  std::vector<score_association> all;
  for (const auto kind : {association::pearson, association::spearman, association::kendall}) {
    all.push_back({number, score, kind, test_association(kind, x, y, {.seed = seed}),
                   bootstrap_association(kind, x, y, {.seed = seed}), leave_one_out(kind, x, y)});
    auto& a = all.back();
    if (std::isnan(a.range.low)) continue;
    a.without_low = labels[a.range.low_without];
    a.without_high = labels[a.range.high_without];
  }
  return all;
}

/// Adds the columns of the coefficient, its test and its ranges.
inline void add_association(table_columns<score_association>& c) {
  using row = score_association;
  c.add("kind", "coefficient: `pearson`, `spearman`, `kendall`", [](auto& r) { return name_of(r.kind); });
  c.of(&row::test)
      .add("n", "number of models", &permutation_test::n)
      .add("estimate", "value of the coefficient", &permutation_test::estimate)
      .add("p", "two-sided permutation p", &permutation_test::p)
      .add("p_standard_error", "standard error of p; 0 if all orders were taken", &permutation_test::standard_error)
      .add("orders", "number of orders: all up to nine models, else drawn", &permutation_test::arrangements);
  c.add("low", "lower end of the 95 % interval, bootstrap over models", [](auto& r) { return r.interval.low; });
  c.add("high", "upper end of the 95 % interval", [](auto& r) { return r.interval.high; });
  c.add("leave_one_out_low", "smallest coefficient as each model is left out", [](auto& r) { return r.range.low; });
  c.add("without_low", "model that is missing there", &row::without_low);
  c.add("leave_one_out_high", "largest coefficient as each model is left out", [](auto& r) { return r.range.high; });
  c.add("without_high", "model that is missing there", &row::without_high);
}

}  // namespace qkgeom::examples
