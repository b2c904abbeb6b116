// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "examples/common/numbers/head_values.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/table.hpp"

namespace qkgeom::examples {

/// Reads the held-out loss of checkpoints from a CSV file with the columns checkpoint,heldout_loss. Throws `error` if a
/// checkpoint occurs twice or none of `labels` occurs.
std::map<std::string, double> read_losses(const std::filesystem::path& path, const std::vector<std::string>& labels);

/// Writes trajectory.csv, transitions.csv, bias_split.csv and the figures, for at least two checkpoints. `model` names
/// the query model of the columns ap_*.
void write_dynamics(output_folder& out, const std::vector<trajectory_point>& points, const std::string& model);

/// Prints the trajectory, the split of the bias and the class changes as tables.
void print_dynamics(printer& out, const std::vector<trajectory_point>& points, const std::string& model);

/// Mean |bias strength| over heads, RoPE and NoPE apart. `column`: bias_strength (per token), bias_context, or
/// bias_context_in_sd (in standard deviations of score differences).
step_figure bias_figure(const std::vector<trajectory_point>& points, const std::string& column);
/// Mean |bias| and its factors, relative to the first checkpoint.
step_figure bias_factor_figure(const std::vector<trajectory_point>& points);
/// Mean |r| on component 0 and on axis a.
step_figure correlation_figure(const std::vector<trajectory_point>& points);
/// Shares of the head classes.
share_figure class_share_figure(const std::vector<trajectory_point>& points);
/// AP overall, over the first and the last fifth of the context, and under the observed queries.
step_figure plasticity_figure(const std::vector<trajectory_point>& points, const std::string& model);
/// AP_drop, RoPE and NoPE apart.
step_figure drop_figure(const std::vector<trajectory_point>& points, const std::string& model);

}  // namespace qkgeom::examples
