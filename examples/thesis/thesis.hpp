// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/outputs.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

enum class verdict { yes, in_part, no, undecided };  ///< undecided: the published tables do not suffice

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
qkgeom::table claims_table(const std::vector<judged_claim>& claims);
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

/// One test of a hypothesis of the benchmark note on the published tables, or its verdict, which comes last; NaN: not
/// given.
struct hypothesis_test {
  std::string hypothesis{}, test{};  ///< `test` of a verdict: the hypothesis in words
  std::optional<std::size_t> n{};
  double estimate = unknown, low = unknown, high = unknown;  ///< 95 % interval
  double p = unknown, p_error = 0;  ///< p_error: standard error of a p from drawn permutations; 0: exact
  std::string verdict{}, note{};
};

/// Tests H1 to H8 of the benchmark note. `seed`: of resampling and drawn permutations.
std::vector<hypothesis_test> test_hypotheses(const published& p, std::uint64_t seed);
qkgeom::table hypotheses_table(const std::vector<hypothesis_test>& tests);
void print_hypotheses(printer& out, const std::vector<hypothesis_test>& tests);

/// Association of one model's scores by length l with one model's plasticity at the same positions: "half" is [l/2, l)
/// (the shortest length: from 0, as in table 2), "end" the decile that holds the positions just below l. Scores of one
/// model with the profile of another are the control: any two values that fall with length correlate.
struct correspondence {
  std::string benchmark, scores_of, profile_of, positions;
  std::size_t n = 0;  ///< lengths with both values
  double pearson = unknown, spearman = unknown, spearman_p = unknown;
  double score_with_length = unknown, profile_with_length = unknown;  ///< Pearson with log2 l
  double partial = unknown;                                           ///< Pearson given log2 l
};

/// Every model with scores by length against every profile, if they share at least three lengths.
std::vector<correspondence> correspondences(const published& p);
qkgeom::table correspondence_table(const std::vector<correspondence>& rows);
void print_correspondences(printer& out, const published& p, const std::vector<correspondence>& rows);

/// Relative loss of a model's score and of its plasticity at [l/2, l), from the shortest to the longest captured
/// length.
struct length_decline {
  double score = unknown, plasticity = unknown;
};
std::vector<length_decline> length_declines(const published& p, const std::string& benchmark);

/// The longest length up to which every score or plasticity stays at or above a threshold.
struct effective_length {
  std::string what, model;  ///< e.g. "RULER score", "llama3.1-8b"
  std::string threshold;    ///< e.g. "absolute 85.6"
  double tokens;            ///< NaN: the first value is below
  bool open;                ///< the longest measured length is still above
};

/// Thresholds. RULER: the score of Llama 2 7B at 4K; LongBench-Pro: half of the scale; plasticity: "warm" in 6.2.2.
struct effective_options {
  double ruler = 85.6, longbench = 50, plasticity = 0.55;
};

/// Of each model's scores and profiles three lengths: for the absolute threshold, and for 90 and 80 % of the value at
/// the shortest length.
std::vector<effective_length> effective_lengths(const published& p, const effective_options& options);
qkgeom::table effective_table(const std::vector<effective_length>& rows);
void print_effective_lengths(printer& out, const std::vector<effective_length>& rows);

/// Writes the tables that tables.csv of the data folder lists: the thesis' tables, recomputed from the published
/// numbers (table_6_1.csv and so on), and the note's comparisons of models, generations and predecessors.
void write_tables(output_folder& out, printer& screen, const published& p, const std::filesystem::path& folder);

/// Writes associations.csv (each metric with LongBench-Pro: exact p, intervals, range with one model left out),
/// families.csv (pooled, within and between families) and separation.csv (how well AP_drop separates families).
void write_associations(output_folder& out, printer& screen, const published& p, std::uint64_t seed);

/// Draws figure 6.7, the decile profiles, and bias per token and per context along training and against AP_drop.
void write_figures(output_folder& out, const published& p);

}  // namespace qkgeom::examples::thesis
