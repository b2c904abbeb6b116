// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "examples/common/numbers/learned.hpp"

namespace qkgeom::examples {

/// The model that a report is about, with the architecture and the state of its weights that its capture names.
compared_model compare_by_capture(const analysed& a, std::string label, std::string family,
                                  const std::vector<double>& token_edges);

/// Throws `error` unless each of these captures is of an untrained model with the architecture of `model`.
void require_untrained(const std::vector<std::filesystem::path>& captures, const std::filesystem::path& model);

/// Prints for all heads of each model the main numbers, those of untrained models, and what was learned with its 95 %
/// interval.
void print_learned(printer& out, const std::vector<learned_group>& groups);

}  // namespace qkgeom::examples
