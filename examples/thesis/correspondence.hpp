// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

/// Scores of one model by length l beside the plasticity of one model at matching query positions: "half" is [l/2, l)
/// (the shortest: from 0, as table 2 has it), "end" the decile of the context that holds the positions just below l.
/// Scores of one model with the profile of another are the control: what falls with length goes with all that does.
struct correspondence {
  std::string benchmark, scores_of, profile_of, positions;
  std::size_t n = 0;  ///< lengths that both have
  double pearson = unknown, spearman = unknown, spearman_p = unknown;
  double score_with_length = unknown, profile_with_length = unknown;  ///< Pearson with log2 l
  double partial = unknown;                                           ///< Pearson given log2 l
};

/// Every model with scores by length against every profile, where they share three lengths or more.
std::vector<correspondence> correspondences(const published& p);

/// Of two RULER models, the lengths at which the one with more plasticity scores higher.
struct length_agreement {
  std::size_t lengths = 0, agree = 0;
};
length_agreement same_length_agreement(const published& p);

/// What a model's score and its plasticity at [l/2, l) lose, as shares, from the shortest length to the longest that
/// was captured.
struct length_decline {
  std::string model;
  double score = unknown, plasticity = unknown;
};
std::vector<length_decline> length_declines(const published& p, const std::string& benchmark);

/// How far scores or plasticity stay at or above a threshold: the longest length up to which every value does.
struct effective_length {
  std::string what, model, threshold;  ///< e.g. "RULER score", "llama3.1-8b", "absolute 85.6"
  double tokens = unknown;             ///< NaN: the first value is already below
  bool open = false;                   ///< still above at the longest length measured
};

/// RULER counts a length as effective above the score of Llama 2 7B at 4K, 85.6; for LongBench-Pro half of the scale;
/// 6.2.2 calls plasticity above 0.55 warm. Relative thresholds are shares of the value at the shortest length.
struct effective_options {
  double ruler = 85.6, longbench = 50, plasticity = 0.55;
  std::vector<double> shares{0.9, 0.8};
};
std::vector<effective_length> effective_lengths(const published& p, const effective_options& options);
double effective(const std::vector<double>& length, const std::vector<double>& value, double threshold);

void write_correspondences(const std::filesystem::path& file, const std::vector<correspondence>& rows);
void write_effective_lengths(const std::filesystem::path& file, const std::vector<effective_length>& rows);
void print_correspondences(printer& out, const published& p, const std::vector<correspondence>& rows);
void print_effective_lengths(printer& out, const std::vector<effective_length>& rows);

}  // namespace qkgeom::examples::thesis
