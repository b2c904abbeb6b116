// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

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

/// Relative loss of a model's score and of its plasticity at [l/2, l), from the shortest to the longest captured
/// length.
struct length_decline {
  std::string model;
  double score = unknown, plasticity = unknown;
};
std::vector<length_decline> length_declines(const published& p, const std::string& benchmark);

/// The longest lengths up to which every score or plasticity stays at or above a threshold.
struct effective_length {
  struct limit {
    std::string threshold;  ///< e.g. "absolute 85.6"
    double tokens;          ///< NaN: the first value is below
    bool open;              ///< the longest measured length is still above
  };
  std::string what, model;  ///< e.g. "RULER score", "llama3.1-8b"
  std::vector<limit> limits;
};

/// Thresholds. RULER: the score of Llama 2 7B at 4K; LongBench-Pro: half of the scale; plasticity: "warm" in 6.2.2.
/// Relative thresholds are shares of the value at the shortest length.
struct effective_options {
  double ruler = 85.6, longbench = 50, plasticity = 0.55;
  std::vector<double> shares{0.9, 0.8};
};
std::vector<effective_length> effective_lengths(const published& p, const effective_options& options);

void write_correspondences(const std::filesystem::path& file, const std::vector<correspondence>& rows);
void write_effective_lengths(const std::filesystem::path& file, const std::vector<effective_length>& rows);
void print_correspondences(printer& out, const published& p, const std::vector<correspondence>& rows);
void print_effective_lengths(printer& out, const std::vector<effective_length>& rows);

}  // namespace qkgeom::examples::thesis
