// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// Effect of changed heads on one measure: changed model less unchanged model, paired by document or probe. Errors run
/// over these for given random sets; `random_spread` is the standard deviation over the random sets.
struct effect {
  std::string ranking, intervention;
  /// "loss" (nats per token), "copy" or "lookup" (share of the right tokens among those asked for).
  std::string measure;
  std::string place;  ///< "all", "near" (first fifth of the context), "far" (last fifth), or the distance in tokens
  std::size_t n = 0;  ///< documents or probes
  double base = 0;    ///< of the unchanged model
  estimate chosen{}, random{}, difference{};  ///< difference: chosen less the mean of the random sets
  double random_spread = 0;
};

/// Effects of the conditions RANKING/chosen/INTERVENTION and RANKING/random-N/INTERVENTION in a folder that
/// qkgeom evaluate wrote. Throws `error` if a condition lacks documents or probes that others have.
std::vector<effect> read_effects(const std::filesystem::path& folder);

/// Writes effects.csv and a figure each for loss and probes.
void write_effects(output_folder& out, const std::vector<effect>& effects);
void print_effects(printer& out, const std::vector<effect>& effects);

}  // namespace qkgeom::examples
