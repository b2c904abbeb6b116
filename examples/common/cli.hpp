// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/geometry/head_class.hpp"

namespace qkgeom::examples {

/// What every program of this folder is told on its command line. Declared once, by `add_arguments`.
struct arguments {
  std::string capture;                ///< folder or single file
  std::filesystem::path out;          ///< folder, made if it is not there
  int threads = 0;                    ///< 0: one a core
  index_t bucket_size = 0;            ///< tokens; 0: as captured
  std::vector<index_t> bucket_edges;  ///< tokens, ascending; empty: uniform buckets
  std::vector<std::string> covariance{"diagonal", "joint", "empirical"};
  std::uint64_t seed = 0;
};

/// CAPTURE, --out and --threads.
void add_arguments(CLI::App& app, arguments& a);
/// --bucket-size, --bucket-edges, --covariance and --seed, for programs that compute plasticity.
void add_plasticity_arguments(CLI::App& app, arguments& a);
/// --low and --high, the limits of |r| between head classes.
void add_threshold_arguments(CLI::App& app, class_thresholds& thresholds);

/// Parses the command line, makes `a.out` and runs `body`. The exit status of a program: 0, or 2 after one sentence on
/// stderr when the command line or the input is bad.
int run_main(int argc, char** argv, CLI::App& app, const arguments& a, const std::function<void()>& body);

}  // namespace qkgeom::examples
