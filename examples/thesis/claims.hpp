// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

enum class verdict { yes, in_part, no, undecided };  ///< undecided: the tables do not hold what it takes

inline const char* name_of(verdict v) {
  return v == verdict::yes ? "yes" : v == verdict::in_part ? "in part" : v == verdict::no ? "no" : "undecided";
}

/// What the tables give for one claim: numbers to be compared with the thesis' one, or conditions that hold or not.
struct finding {
  std::vector<double> numbers;
  std::vector<std::pair<std::string, bool>> conditions;
  bool undecided = false;
  std::string text;  ///< what is shown instead of the numbers; empty: the numbers, or how many conditions hold
  std::string note;
};

finding numbers(std::vector<double> values, std::string note = {});
finding conditions(std::vector<std::pair<std::string, bool>> which, std::string note = {});
/// For what only captures can tell: the command that makes them goes into the note.
finding undecided(std::string note, std::string text = {});

/// A statement of the thesis, a row of claims.csv in the data folder. A number agrees if it lies within
/// [value - tolerance, upper + tolerance]; a statement without value agrees if its conditions hold.
struct stated_claim {
  std::string id, lists, where, statement, thesis;
  double value = unknown, upper = unknown, tolerance = 0;
};

/// The function that recomputes the claim called `id`.
struct claim_function {
  std::string id;
  std::function<finding(const published&)> compute;
};
using claim_functions = std::vector<claim_function>;

claim_functions geometry_claims();   ///< 6.1
claim_functions profile_claims();    ///< 6.2
claim_functions training_claims();   ///< 6.3, 7.1
claim_functions benchmark_claims();  ///< 6.4, 7.2
claim_functions note_claims();       ///< the benchmark note

/// A stated claim beside what the tables give.
struct judged_claim {
  stated_claim stated;
  finding found;
  verdict agrees = verdict::undecided;
  std::string recomputed;
};

/// Reads claims.csv of the data folder and judges every line. Throws `error` if a claim has no function or a function
/// no claim.
std::vector<judged_claim> judge_claims(const std::filesystem::path& folder, const published& p);

void write_claims(const std::filesystem::path& file, const std::vector<judged_claim>& claims);
void print_claims(printer& out, const std::vector<judged_claim>& claims);

/// `digits` significant digits without zeros at the end.
std::string trimmed(double value, int digits = 4);
/// Numbers as text: those of a short list, the ends of a long one.
std::string listed(const std::vector<double>& values, int digits = 4);

}  // namespace qkgeom::examples::thesis
