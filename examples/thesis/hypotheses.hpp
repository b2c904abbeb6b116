// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

/// One test of one hypothesis on the published tables.
struct hypothesis_test {
  std::string hypothesis, test;
  std::size_t n = 0;
  double estimate = unknown, low = unknown, high = unknown;  ///< 95 % interval
  double p = unknown, p_error = 0;  ///< p_error: standard error of a p from drawn permutations; 0: exact
  std::string note;
};

/// The verdict on a hypothesis, or the data that would decide it.
struct hypothesis_verdict {
  std::string hypothesis, statement, verdict, reading;
};

struct hypotheses_result {
  std::vector<hypothesis_test> tests;
  std::vector<hypothesis_verdict> verdicts;
};

/// Tests H1 to H8 of the benchmark note; hypotheses.csv of the data folder states them. `seed`: of resampling and drawn
/// permutations.
hypotheses_result test_hypotheses(const std::filesystem::path& folder, const published& p, std::uint64_t seed);

/// Writes a row per test and a row per verdict.
void write_hypotheses(const std::filesystem::path& file, const hypotheses_result& h);
void print_hypotheses(printer& out, const hypotheses_result& h);

}  // namespace qkgeom::examples::thesis
