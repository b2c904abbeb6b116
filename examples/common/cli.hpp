// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "examples/common/arguments.hpp"
#include "examples/common/command_line.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/geometry/head_class.hpp"

namespace qkgeom::examples {

/// CAPTURE, --out, --rows-only and --threads.
void add_arguments(command_line& app, arguments& a);
/// --no-figures, of a program that draws.
void add_figures_argument(command_line& app, arguments& a);
/// --device: cpu or cuda.
void add_device_argument(command_line& app, arguments& a);
/// --layers, --heads and --head-part: some heads, or a part of each, alone.
void add_head_arguments(command_line& app, arguments& a);
/// --bucket-size, --bucket-edges, --covariance (several query models), --pairs, --query-position, --precision, --seed.
void add_plasticity_arguments(command_line& app, arguments& a);
/// --bucket-size, --bucket-edges, --covariance (one query model), --query-position, --precision.
void add_query_model_arguments(command_line& app, arguments& a);
void add_seed_argument(command_line& app, arguments& a);
/// --low and --high: limits of |r| between head classes.
void add_threshold_arguments(command_line& app, class_thresholds& thresholds);
/// --blocks: number of blocks of documents; errors of PCA and rotation leave out one block at a time.
void add_blocks_argument(command_line& app, index_t& blocks);

/// Parses the command line, creates `a.out` and runs `body`; --device cuda first replaces this program by the one with
/// CUDA. Returns the exit status as `run_program` does. A folder that was made and is left empty is removed again.
int run_main(int argc, char** argv, command_line& app, arguments& a, const std::function<void()>& body);

}  // namespace qkgeom::examples
