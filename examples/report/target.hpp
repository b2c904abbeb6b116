// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/table.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom::examples {

/// The thesis' target for long-context training (7.4): AP_drop below this, over a context of `target_context` tokens
/// and more.
inline constexpr double drop_target = 0.10;
inline constexpr index_t target_context = 131072;

enum class verdict { met, not_met, open };

/// Met or not if AP_drop is more than two standard errors away from the target; open otherwise, and without an error.
inline verdict judge(const estimate& drop, double target = drop_target) {
  if (!(std::abs(drop.value - target) > 2 * drop.error)) return verdict::open;
  return drop.value < target ? verdict::met : verdict::not_met;
}
/// "met", "not met", "cannot be said".
std::string words_of(verdict v);

/// Whether the mean AP_drop of all heads meets the target, and how sure that is, in a sentence for a context of
/// `context_length` tokens.
std::string target_statement(const estimate& drop, index_t context_length);

/// The verdict on the headline query model, and a table of all query models and the observed queries, RoPE and NoPE
/// layers apart.
void print_target(printer& out, const model_report& report);

/// A model by its AP_drop and its score on a benchmark.
struct scored_model {
  std::string name;
  double drop = 0, score = 0;
};

/// Models of a CSV file, by the names of its columns for name, AP_drop and score; rows without one of the two numbers
/// are left out. Throws `error` if a column is missing or no model is left.
std::vector<scored_model> read_scored_models(const std::filesystem::path& file,
                                             const std::vector<std::string>& columns);

double median_score(const std::vector<scored_model>& models);

/// A model among others: which side of the target its AP_drop, which side of the others' median its score is on.
struct quadrant {
  verdict flat = verdict::open;
  bool high = false;      ///< score at or above the median
  std::string statement;  ///< with the thesis' name for it (7.2)
};
quadrant quadrant_of(const estimate& drop, double score, double median);

/// AP_drop against score: the others, this model with a bar of two standard errors, lines at the target and at the
/// others' median score.
struct quadrant_figure {
  std::string title, subtitle, score_name;
  std::string model;
  estimate drop;
  double score = 0;
  std::vector<scored_model> others;
};
void draw(const quadrant_figure& figure, const std::filesystem::path& stem);

}  // namespace qkgeom::examples
