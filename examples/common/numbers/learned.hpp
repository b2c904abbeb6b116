// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/numbers/comparison.hpp"
#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// A number of a model beside the same number of untrained models of its architecture, whose weights come from
/// different seeds.
struct learned_number {
  std::string name;
  double value = 0;           ///< the model's
  double untrained = 0;       ///< mean over the seeds
  double learned = 0;         ///< value - untrained
  double document_error = 0;  ///< of `learned`, jackknife over documents; NaN: not known
  double seed_error = 0;      ///< of one more untrained model's distance from that mean; NaN with one seed
  double low = 0, high = 0;   ///< 95 % interval of `learned` (`learned_numbers`); NaN: not known

  /// Whether the interval leaves out 0: an untrained model of another seed would not show this number.
  bool is_learned() const { return low > 0 || high < 0; }
};

/// Computes what training put into each number of a group of heads: the model's less the mean over `untrained`, the
/// same group of untrained models. With S seeds of standard deviation s, one more untrained model lies from their mean
/// by s sqrt(1 + 1/S), so the interval reaches to each side by hypot(t_D document_error, t_(S-1) s sqrt(1 + 1/S)), t
/// being the quantiles of Student's distribution: in 95 of 100 cases an untrained model in the model's place has 0
/// inside. `paired`: all come from the same documents. Throws `error` if `untrained` is empty or its groups have other
/// numbers.
std::vector<learned_number> learned_numbers(const compared_group& model,
                                            const std::vector<const compared_group*>& untrained, bool paired);

/// The numbers that one group of a model's heads has learned.
struct learned_group {
  std::string model, group;  ///< label; all, rope or nope
  bool untrained = false;    ///< the model is untrained itself, so that nothing is learned
  std::size_t seeds = 0;     ///< untrained models held against
  std::vector<learned_number> numbers;
};

/// Holds each model against the untrained ones of the same architecture, an untrained model against those of other
/// seeds. Models without such a baseline, and groups of heads that it lacks, are left out.
std::vector<learned_group> learned_of(const std::vector<compared_model>& models);

/// learned.csv: a row per group and number.
qkgeom::table learned_table(const std::vector<learned_group>& groups);

/// The model that a report is about, with the architecture and the state of its weights that its capture names.
compared_model compare_by_capture(const analysed& a, std::string label, std::string family,
                                  const std::vector<double>& token_edges);

/// Throws `error` unless each of these captures is of an untrained model with the architecture of `model`.
void require_untrained(const std::vector<std::filesystem::path>& captures, const std::filesystem::path& model);

/// Prints for all heads of each model the main numbers, those of untrained models, and what was learned with its 95 %
/// interval.
void print_learned(printer& out, const std::vector<learned_group>& groups);

}  // namespace qkgeom::examples
