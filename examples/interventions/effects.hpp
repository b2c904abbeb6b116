// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// What a change of some heads did to one measure: condition less the model as it is, paired by document or probe.
/// Errors are over those, given the random sets; `random_spread` is the standard deviation over the random sets.
struct effect {
  std::string ranking, intervention;
  std::string
      measure;        ///< "loss" (nats a token), or "copy" and "lookup" (share of the tokens asked for that are named)
  std::string place;  ///< "all", "near" (first fifth of the context), "far" (last fifth), or the distance in tokens
  std::size_t n = 0;  ///< documents or probes
  double base = 0;    ///< of the model as it is
  estimate chosen{}, random{}, difference{};  ///< difference: chosen less the mean of the random sets
  double random_spread = 0;
};

/// Effects of the conditions RANKING/chosen/INTERVENTION and RANKING/random-N/INTERVENTION in a folder that
/// qkgeom-evaluate wrote. Throws `error` where a table lacks what another has.
std::vector<effect> read_effects(const std::filesystem::path& folder);

/// effects.csv and two figures, of the loss and of the probes.
void write_effects(output_folder& out, const std::vector<effect>& effects);
void print_effects(printer& out, const std::vector<effect>& effects);

}  // namespace qkgeom::examples
