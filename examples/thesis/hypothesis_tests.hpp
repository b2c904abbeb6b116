// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "examples/thesis/hypotheses.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom::examples::thesis {

/// Collects the tests of one hypothesis after another.
class tester {
 public:
  tester(hypotheses_result& result, const csv_table& stated, std::uint64_t seed)
      : result_(result), stated_(stated), permutations_{.seed = seed}, resamples_{.seed = seed} {}

  void begin(std::string name) { name_ = std::move(name); }

  /// Numbers of a test; NaN: not given.
  struct values {
    std::size_t n = 0;
    double estimate = unknown, low = unknown, high = unknown, p = unknown, p_error = 0;
  };
  void add(std::string test, const values& v, std::string note = {}) {
    result_.tests.push_back({.hypothesis = name_,
                             .test = std::move(test),
                             .n = v.n,
                             .estimate = v.estimate,
                             .low = v.low,
                             .high = v.high,
                             .p = v.p,
                             .p_error = v.p_error,
                             .note = std::move(note)});
  }
  void add(std::string test, std::size_t n, double estimate, std::string note = {}) {
    add(std::move(test), values{.n = n, .estimate = estimate}, std::move(note));
  }
  void add_permutation(std::string test, const permutation_test& t, std::string note = {}) {
    add(std::move(test), values{.n = t.n, .estimate = t.estimate, .p = t.p, .p_error = t.standard_error},
        std::move(note));
  }
  permutation_test associate(association kind, const std::string& test, const std::vector<double>& x,
                             const std::vector<double>& y, std::string note = {}) {
    const auto t = test_association(kind, x, y, permutations_);
    const auto b = bootstrap_association(kind, x, y, resamples_);
    const char* const name = kind == association::pearson    ? "Pearson"
                             : kind == association::spearman ? "Spearman"
                                                             : "Kendall";
    add(std::string(name) + " of " + test,
        values{.n = t.n, .estimate = t.estimate, .low = b.low, .high = b.high, .p = t.p, .p_error = t.standard_error},
        std::move(note));
    return t;
  }
  predictor_comparison compare(const std::string& first, const std::vector<double>& a, const std::string& second,
                               const std::vector<double>& b, const std::vector<double>& y) {
    const auto c = compare_predictors(association::spearman, a, b, y, permutations_, resamples_);
    const std::string words = "|Spearman| of " + first + " minus that of " + second;
    for (const auto& [t, how] :
         {std::pair(c.by_swap, "; columns swapped"), std::pair(c.by_order, "; scores in any order")})
      add(words + how, values{.n = c.n,
                              .estimate = c.difference,
                              .low = c.interval.low,
                              .high = c.interval.high,
                              .p = t.p,
                              .p_error = t.standard_error});
    return c;
  }
  void conclude(std::string verdict, std::string reading) {
    if (!reading.empty() && reading[0] >= 'a' && reading[0] <= 'z')
      reading[0] = static_cast<char>(reading[0] - 'a' + 'A');
    const auto& names = stated_.column("hypothesis");
    const auto row = std::find(names.begin(), names.end(), name_);
    require(row != names.end(), "hypotheses.csv: there is no row ", name_);
    result_.verdicts.push_back(
        {name_, stated_.column("statement")[row - names.begin()], std::move(verdict), std::move(reading)});
  }
  const permutation_options& permutations() const { return permutations_; }

 private:
  hypotheses_result& result_;
  const csv_table& stated_;
  permutation_options permutations_;
  bootstrap_options resamples_;
  std::string name_;
};

/// H1 and H2: whether a metric correlates more with the scores of the seven models than AP_overall does.
void test_predictor(tester& t, const published& p, const char* name, const std::string& words, double model::*member);
void test_by_length(tester& t, const published& p);   ///< H3
void test_bias(tester& t, const published& p);        ///< H4
void test_capability(tester& t, const published& p);  ///< H5
void test_parts(tester& t, const published& p);       ///< H6
void test_truncation(tester& t, const published& p);  ///< H7
void test_recovery(tester& t, const published& p);    ///< H8

}  // namespace qkgeom::examples::thesis
