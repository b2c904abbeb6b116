// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/table.hpp"
#include "qkgeom/study/trajectory.hpp"

namespace qkgeom::examples {

/// Held-out loss by checkpoint, from a CSV file with the columns checkpoint,heldout_loss. Throws `error` if a
/// checkpoint is there twice, or if none of `labels` is there.
std::map<std::string, double> read_losses(const std::filesystem::path& path, const std::vector<std::string>& labels);

/// trajectory.csv, transitions.csv, bias_split.csv and the figures. At least two checkpoints. `model` is what the query
/// model behind the columns ap_* is called.
void write_dynamics(output_folder& out, const std::vector<trajectory_point>& points, const std::string& model);

/// The trajectory, the split of the bias and the moves between classes as tables for a terminal.
void print_dynamics(printer& out, const std::vector<trajectory_point>& points, const std::string& model);

/// Mean |bias_strength| over heads, RoPE and NoPE apart: per token, per context or in standard deviations of score
/// differences, by the name of the column.
step_figure bias_figure(const std::vector<trajectory_point>& points, const std::string& column);
/// The factors of the mean |bias| against those of the first checkpoint.
step_figure bias_factor_figure(const std::vector<trajectory_point>& points);
/// Mean |r| on component 0 and on axis a.
step_figure correlation_figure(const std::vector<trajectory_point>& points);
/// Shares of the head classes.
share_figure class_share_figure(const std::vector<trajectory_point>& points);
/// AP overall, over the first and the last fifth of the context, and of the observed queries.
step_figure plasticity_figure(const std::vector<trajectory_point>& points, const std::string& model);
/// AP_drop, RoPE and NoPE apart.
step_figure drop_figure(const std::vector<trajectory_point>& points, const std::string& model);

}  // namespace qkgeom::examples
