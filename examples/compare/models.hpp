// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/numbers/comparison.hpp"
#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// A benchmark's scores; NaN for models without one.
struct model_score {
  std::string name;
  std::vector<double> value;  ///< (models)
};

/// Settings of a comparison.
struct model_choices {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  ///< differences to write: first less second
  std::vector<model_score> scores;
  class_thresholds thresholds;
  std::string query_model;  ///< of the columns ap_*
  std::uint64_t seed = 0;   ///< of resampling
};

/// Models that have both a number (x) and a score (y).
struct scored_rows {
  std::vector<double> x, y;
  std::vector<std::string> labels, families;
};

scored_rows rows_with(const std::vector<compared_model>& models, const std::string& number, const model_score& score);

/// Writes models.csv, positions.csv, model_components.csv, differences.csv, rope_nope.csv, families.csv, scores.csv,
/// learned.csv where there is an untrained model, and the figures.
void write_models(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices);
/// Prints the main numbers as tables.
void print_models(printer& out, const std::vector<compared_model>& models, const model_choices& choices);
/// Draws the figures.
void draw_models(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices);

}  // namespace qkgeom::examples
