// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "examples/common/command_line.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/geometry/pca.hpp"

namespace qkgeom {
struct wanted_embedding;
}

namespace qkgeom::examples {

/// Options that several programs share; the functions of cli.hpp declare them.
struct arguments {
  std::vector<std::filesystem::path> captures;  ///< folders or single files, of one model
  std::filesystem::path out;                    ///< folder of the results, created if missing
  bool figures = false;                         ///< whether the program draws
  int threads = 0;                              ///< 0: `usable_cores()`
  std::string device = "cpu";                   ///< or cuda
  index_t bucket_size = 0;                      ///< tokens; 0: as captured
  std::vector<index_t> bucket_edges;            ///< tokens, ascending; empty: uniform buckets
  std::vector<std::string> covariance{"diagonal", "joint", "empirical"};
  std::string pairs = "all";              ///< or per_document, prefix_uniform, sampled:N
  std::string query_position = "middle";  ///< or mean
  std::string precision = "auto";         ///< or f32, f64
  std::uint64_t seed = 0;
  std::vector<std::string> heads{};  ///< LAYER.HEAD to analyse; with `layers` empty too: all
  std::vector<index_t> layers{};     ///< layers to analyse
  std::vector<index_t> documents{};  ///< indices in the order of the captures; empty: all
  std::string head_part{};        ///< of each head these coordinates alone, by the name that captures give; empty: all
  index_t max_position = 0;       ///< the context ends there, tokens; 0: where it was captured to
  std::function<void()> watch{};  ///< called within the loops of the CPU, which what it throws ends
  bool rows_only = false;         ///< moments from the captured rows even if the capture holds moments of every token
};

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
/// --rope-theta and --rope-scaling: another rotary embedding than the captured one.
void add_embedding_arguments(command_line& app, wanted_embedding& wanted);
void add_seed_argument(command_line& app, arguments& a);
/// --low and --high: limits of |r| between head classes.
void add_threshold_arguments(command_line& app, class_thresholds& thresholds);
/// --blocks: number of blocks of documents; errors of PCA and rotation leave out one block at a time.
void add_blocks_argument(command_line& app, index_t& blocks);

/// Parses the command line, creates `a.out` and runs `body`; --device cuda first replaces this program by the one with
/// CUDA. Returns the exit status as `run_program` does. A folder that was made and is left empty is removed again.
int run_main(int argc, char** argv, command_line& app, arguments& a, const std::function<void()>& body);

}  // namespace qkgeom::examples
