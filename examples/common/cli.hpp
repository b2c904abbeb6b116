// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "examples/common/arguments.hpp"
#include "qkgeom/geometry/head_class.hpp"

namespace qkgeom::examples {

/// CAPTURE, --out, --rows-only and --threads.
void add_arguments(CLI::App& app, arguments& a);
/// --device, for programs whose analyses may run on a GPU.
void add_device_argument(CLI::App& app, arguments& a);
/// --bucket-size, --bucket-edges, --covariance, --pairs, --query-position, --precision and --seed, for programs that
/// compute plasticity.
void add_plasticity_arguments(CLI::App& app, arguments& a);
/// --bucket-size, --bucket-edges, --covariance, --query-position and --precision, for programs that sum all pairs under
/// one query model.
void add_query_model_arguments(CLI::App& app, arguments& a);
void add_seed_argument(CLI::App& app, arguments& a);
/// --low and --high, the limits of |r| between head classes.
void add_threshold_arguments(CLI::App& app, class_thresholds& thresholds);

/// --blocks, the blocks of documents that errors of PCA and rotation leave out.
void add_blocks_argument(CLI::App& app, index_t& blocks);

/// Parses the command line, makes `a.out` and runs `body`; with --device cuda in the program that can. The exit status
/// of a program: 0, or 2 after one sentence on stderr when the command line or the input is bad.
int run_main(int argc, char** argv, CLI::App& app, const arguments& a, const std::function<void()>& body);

}  // namespace qkgeom::examples
