// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/study/comparison_csv.hpp"

namespace qkgeom::examples {

/// One score of each model; NaN where it has none.
struct model_score {
  std::string name;
  std::vector<double> value;  ///< (models)
};

/// What models are compared by beside their captures.
struct model_choices {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  ///< told apart one by one: the first less the second
  std::vector<model_score> scores;
  class_thresholds thresholds;
  std::string query_model;  ///< behind the columns ap_*
  std::uint64_t seed = 0;   ///< of resamples
};

/// Lengths at which the documents of the captures were cut, tokens.
std::vector<index_t> context_lengths(const std::vector<std::filesystem::path>& captures);
/// What a capture's manifest says of its model: its family, or what kind of model it is.
std::string family_of(const analysed& a);
/// Ids of the documents, which captures of the same texts share; none if the manifest does not list them.
std::vector<std::string> document_ids_of(const analysed& a);

/// Scores of the models, from a CSV file with the column `model` and one column for each score. Throws `error` if a
/// model is there twice, or if none of `labels` is there.
std::vector<model_score> read_scores(const std::filesystem::path& path, const std::vector<std::string>& labels);

/// The pairs that `texts` name, "A,B" each; without any, each model with the first. Throws `error` at what is no pair
/// of labels.
std::vector<std::pair<std::size_t, std::size_t>> model_pairs(const std::vector<std::string>& texts,
                                                             const std::vector<std::string>& labels);

/// models.csv, positions.csv, model_components.csv, differences.csv, rope_nope.csv, families.csv, scores.csv and the
/// figures.
void write_models(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices);
/// The same as tables for a terminal.
void print_models(printer& out, const std::vector<compared_model>& models, const model_choices& choices);

/// The figures alone.
void draw_models(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices);

}  // namespace qkgeom::examples
