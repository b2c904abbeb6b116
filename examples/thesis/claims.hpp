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

enum class verdict { yes, in_part, no, undecided };  ///< undecided: the published tables do not suffice

inline const char* name_of(verdict v) {
  return v == verdict::yes ? "yes" : v == verdict::in_part ? "in part" : v == verdict::no ? "no" : "undecided";
}

using condition_list = std::vector<std::pair<std::string, bool>>;

/// The tables' answer to one claim: numbers to compare with the thesis' number, or conditions that hold or fail.
struct finding {
  std::vector<double> numbers;
  condition_list conditions;
  bool undecided = false;
  std::string text;  ///< shown in place of numbers; empty: the numbers, or how many conditions hold
  std::string note;
};

finding numbers(std::vector<double> values, std::string note = {});
finding conditions(condition_list which, std::string note = {});
/// For claims that only captures decide; the note names the command that makes them.
finding undecided(std::string note, std::string text = {});

/// A claim of the thesis, a row of claims.csv in the data folder. A number agrees if it lies within
/// [value - tolerance, upper + tolerance]; a claim without value agrees if its conditions hold.
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

/// A claim beside the finding from the tables.
struct judged_claim {
  stated_claim stated;
  finding found;
  verdict agrees = verdict::undecided;
  std::string recomputed;
};

/// Judges every claim of claims.csv in the data folder. Throws `error` if a claim has no function or a function no
/// claim.
std::vector<judged_claim> judge_claims(const std::filesystem::path& folder, const published& p);

void write_claims(const std::filesystem::path& file, const std::vector<judged_claim>& claims);
void print_claims(printer& out, const std::vector<judged_claim>& claims);

/// `significant` without trailing zeros.
std::string trimmed(double value, int digits = 4);
/// Up to six numbers as text, else the smallest, the largest and the count.
std::string listed(const std::vector<double>& values, int digits = 4);

}  // namespace qkgeom::examples::thesis
