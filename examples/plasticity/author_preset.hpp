// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "examples/common/arguments.hpp"

namespace qkgeom::examples {

/// What `plasticity --preset attention-plasticity` is told besides the capture; defaults are that tool's.
struct preset_arguments {
  std::string name;  ///< empty: no preset
  double alpha = 0.01;
  index_t max_tokens = 50000;
  index_t max_dimensions = 64;
};

/// --preset, and --alpha, --max-tokens and --max-dims, which only a preset reads.
void add_preset_arguments(CLI::App& app, preset_arguments& preset);

/// Writes head_metrics.csv, head_bucket_plasticity.csv and head_component_weights.csv as the thesis author's tool
/// attention-plasticity does, and prints a summary.
void run_preset(const arguments& a, const preset_arguments& preset);

}  // namespace qkgeom::examples
