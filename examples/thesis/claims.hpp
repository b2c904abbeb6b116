// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/cli.hpp"
#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"
#include "qkgeom/report/head_report.hpp"

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

/// The heads of one of the thesis' models, from a capture of the user's.
struct captured_model {
  std::string name;
  model_report report;
};

/// Analyses captures of the thesis' models: CAPTURE, whose manifest names its study, or MODEL=CAPTURE. Throws `error`
/// if a model is none of the published ones or is there twice.
std::vector<captured_model> read_captures(const std::vector<std::string>& captures, const arguments& a,
                                          const published& p);

/// Decides a claim that no published table does: evaluates its expression over the table `heads` of all captured heads
/// of the models that `captures` names. Undecided until all of them are captured, with the number over those that are.
finding find_in_captures(const stated_claim& claim, const published& p);

/// Layers with a recovery, stated as 29 of 32 and 26 of 32.
finding recovering_layers(const published& p);

}  // namespace qkgeom::examples::thesis
