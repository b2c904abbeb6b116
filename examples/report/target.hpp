// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/table.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {

/// The thesis' target for long-context training (7.4): AP_drop below this over at least `target_context` tokens.
inline constexpr double drop_target = 0.10;
inline constexpr index_t target_context = 131072;

enum class verdict { met, not_met, open };

/// Met or not met if the 95 % interval of AP_drop does not hold the target, else open; open without an error.
inline verdict judge(const estimate& drop, double target = drop_target) {
  if (!(std::abs(drop.value - target) > half_width(drop))) return verdict::open;
  return drop.value < target ? verdict::met : verdict::not_met;
}
/// "met", "not met", "cannot be said".
std::string words_of(verdict v);

/// One sentence: whether the mean AP_drop of all heads meets the target over `context_length` tokens, with its error.
std::string target_statement(const estimate& drop, index_t context_length);

/// Prints the verdict under the headline query model, and a table of AP_drop under all query models and the observed
/// queries, RoPE and NoPE layers apart.
void print_target(printer& out, const model_report& report);

/// A model with its AP_drop and its benchmark score.
struct scored_model {
  std::string name;
  double drop = 0, score = 0;
};

/// Reads models from a CSV file; `columns` names those of name, AP_drop and score. Skips rows without both numbers.
/// Throws `error` if a column is missing or no model is left.
std::vector<scored_model> read_scored_models(const std::filesystem::path& file,
                                             const std::vector<std::string>& columns);

double median_score(const std::vector<scored_model>& models);

/// A model's place among others: its AP_drop against the target, its score against the others' median.
struct quadrant {
  verdict flat = verdict::open;
  bool high = false;      ///< score at or above the median
  std::string statement;  ///< with the thesis' name of the quadrant (7.2)
};
quadrant quadrant_of(const estimate& drop, double score, double median);

/// AP_drop against score: other models, this model with a bar of its 95 % interval, lines at the target and at the
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
