// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "examples/common/arguments.hpp"
#include "examples/common/command_line.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom::examples {

/// Options of `plasticity --preset attention-plasticity`; defaults are that tool's.
struct preset_arguments {
  std::string name;  ///< empty: no preset
  double alpha = 0.01;
  index_t max_tokens = 50000;
  index_t max_dimensions = 64;
};

/// --preset, --alpha, --max-tokens and --max-dims; only a preset reads the last three.
void add_preset_arguments(command_line& app, preset_arguments& preset);

/// Writes head_metrics.csv, head_bucket_plasticity.csv and head_component_weights.csv with the definitions of the
/// thesis author's tool attention-plasticity, and prints a summary.
void run_preset(const arguments& a, const preset_arguments& preset);

}  // namespace qkgeom::examples
