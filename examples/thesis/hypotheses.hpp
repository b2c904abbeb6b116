// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

/// One test of one hypothesis on the published tables. Empty fields are NaN.
struct hypothesis_test {
  std::string hypothesis, test;
  std::size_t n = 0;
  double estimate = unknown, low = unknown, high = unknown;  ///< 95 % interval
  double p = unknown, p_error = 0;                           ///< exact unless p_error says how far a drawn p may be off
  std::string note;
};

/// What the tests of a hypothesis come to, or which data it waits for and what decides it.
struct hypothesis_verdict {
  std::string hypothesis, statement, verdict, reading;
};

struct hypotheses_result {
  std::vector<hypothesis_test> tests;
  std::vector<hypothesis_verdict> verdicts;
};

/// H1 to H8 of the benchmark note, their wording from hypotheses.csv of the data folder; `seed` of resamples and drawn
/// permutations.
hypotheses_result test_hypotheses(const std::filesystem::path& folder, const published& p, std::uint64_t seed);

/// One row a test and one a verdict.
void write_hypotheses(const std::filesystem::path& file, const hypotheses_result& h);
void print_hypotheses(printer& out, const hypotheses_result& h);

}  // namespace qkgeom::examples::thesis
