// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom::examples::thesis {

/// One test of a hypothesis on the published tables; NaN: not given.
struct hypothesis_test {
  std::string test;
  std::size_t n = 0;
  double estimate = unknown, low = unknown, high = unknown;  ///< 95 % interval
  double p = unknown, p_error = 0;  ///< p_error: standard error of a p from drawn permutations; 0: exact
  std::string note{};
};

/// A hypothesis of the benchmark note with its tests, and the verdict or the data that would decide it.
struct hypothesis {
  std::string name, statement;
  std::vector<hypothesis_test> tests{};
  std::string verdict{}, reading{};
};

/// Collects the tests of one hypothesis after another.
class tester {
 public:
  tester(const published& p, std::uint64_t seed) : p_(p), permutations_{.seed = seed}, resamples_{.seed = seed} {}

  void begin(const std::string& name) {
    hypotheses_.push_back({.name = name, .statement = p_.texts("hypotheses[" + name + "].statement").front()});
  }
  void add(hypothesis_test test) { hypotheses_.back().tests.push_back(std::move(test)); }
  void add(std::string test, std::size_t n, double estimate, std::string note = {}) {
    add({.test = std::move(test), .n = n, .estimate = estimate, .note = std::move(note)});
  }
  void add(std::string test, const permutation_test& t, std::string note);
  permutation_test associate(association kind, const std::string& test, const std::vector<double>& x,
                             const std::vector<double>& y, std::string note = {});
  predictor_comparison compare(const std::string& first, const std::vector<double>& a, const std::string& second,
                               const std::vector<double>& b, const std::vector<double>& y);
  void conclude(std::string verdict, std::string reading);

  const permutation_options& permutations() const { return permutations_; }
  const std::vector<hypothesis>& hypotheses() const { return hypotheses_; }

 private:
  const published& p_;
  permutation_options permutations_;
  bootstrap_options resamples_;
  std::vector<hypothesis> hypotheses_{};
};

/// H1 and H2: whether a metric correlates more with the scores of the seven models than AP_overall does.
void test_predictor(tester& t, const published& p, const char* name, const std::string& words,
                    const std::string& column);
void test_by_length(tester& t, const published& p);   ///< H3
void test_bias(tester& t, const published& p);        ///< H4
void test_capability(tester& t, const published& p);  ///< H5
void test_parts(tester& t, const published& p);       ///< H6
void test_truncation(tester& t, const published& p);  ///< H7
void test_recovery(tester& t, const published& p);    ///< H8

/// Tests H1 to H8 of the benchmark note. `seed`: of resampling and drawn permutations.
std::vector<hypothesis> test_hypotheses(const published& p, std::uint64_t seed);

/// Writes a row per test and a row per verdict.
void write_hypotheses(const std::filesystem::path& file, const std::vector<hypothesis>& hypotheses);
void print_hypotheses(printer& out, const std::vector<hypothesis>& hypotheses);

}  // namespace qkgeom::examples::thesis
