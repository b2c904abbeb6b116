// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <map>
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

/// The tables' answer to one claim: numbers to compare with the thesis' number, or conditions that hold or fail.
struct finding {
  std::vector<double> numbers{};
  std::vector<std::pair<std::string, bool>> conditions{};
  bool undecided = false;
  std::string text{};  ///< shown in place of numbers; empty: the numbers, or how many conditions hold
  std::string note{};
};

/// A claim of the thesis, a row of claims.csv in the data folder. A number agrees if it lies within
/// [value - tolerance, upper + tolerance]; a claim without value agrees if its conditions hold.
struct stated_claim {
  std::string id, lists, where, statement, thesis;
  double value = unknown, upper = unknown, tolerance = 0;
  std::string captures, computed, cases, note;
};

/// Recomputes claims that no expression can, by id.
using claim_functions = std::map<std::string, std::function<finding(const published&)>>;
claim_functions procedures();

/// A claim beside the finding from the tables.
struct judged_claim {
  stated_claim stated;
  finding found;
  verdict agrees = verdict::undecided;
  std::string recomputed;
};

/// Evaluates what claims.csv states as computed. Throws `error` that names the claim.
finding find_by_expression(const stated_claim& claim, const published& p);

/// Judges every claim of claims.csv in the data folder. Throws `error` if a claim has neither expression nor function,
/// or a function no claim.
std::vector<judged_claim> judge_claims(const std::filesystem::path& folder, const published& p);

void write_claims(const std::filesystem::path& file, const std::vector<judged_claim>& claims);
void print_claims(printer& out, const std::vector<judged_claim>& claims);

}  // namespace qkgeom::examples::thesis
