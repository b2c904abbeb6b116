// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "examples/common/cli.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/model/component_weights.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/report/analyse.hpp"

namespace qkgeom::examples {

/// Parameters of attention-plasticity, the tool of the thesis' author. Defaults are that tool's.
struct author_options {
  double alpha = 0.01;           ///< level of the Kolmogorov-Smirnov tests
  index_t most_tokens = 50000;   ///< if a head has more queries or keys, so many of them are drawn; 0: all are used
  index_t most_dimensions = 64;  ///< at most so many of the coordinates 2..d are tested; 0: all
  std::uint64_t seed = 0;        ///< of both draws
};

/// Mean plasticity of the pairs of keys of one document inside one key bucket, for the queries of a later bucket.
struct author_cell {
  index_t q_bucket = 0, k_bucket = 0;
  std::int64_t pairs = 0;
  double plasticity = std::numeric_limits<double>::quiet_NaN();  ///< NaN (null) without pairs
};

/// The report of the author's tool on one query head.
struct author_head {
  index_t layer = 0, q_head = 0, k_head = 0;
  index_t queries = 0, keys = 0, dim = 0;
  fit_checks_result fit;  ///< with coordinates flipped as below
  component_weights_result weights;
  std::vector<author_cell> cells;  ///< by query bucket, then key bucket
  estimate overall;                ///< plain mean over cells; error: jackknife over documents, given the query model
};

/// The grid of a capture under the author's bucket numbers.
struct author_grid {
  bucket_edges edges;
  index_t first = 0;  ///< number of the first bucket; log2 buckets start at log2 of their smallest size
};

/// The grid of the author's tool for a capture: log2 buckets where its tokens were drawn over such, else
/// `query_buckets`.
author_grid author_buckets(const capture_manifest& manifest);

/// The report of attention-plasticity on each query head of a layer: linear-drift model, query position the bucket's
/// mean, coordinates flipped by the sign of the keys' mean over bucket means, pairs of one document inside one key
/// bucket. Exact where the tool samples pairs.
template <class T>
std::vector<author_head> author_layer(cpu_context& cpu, const layer_view<T>& layer, const layer_names& names,
                                      const bucket_edges& buckets, const author_options& options = {});

/// The same for every head of `source`. `progress(heads)` is called after each layer with the number of its query
/// heads.
std::vector<author_head> author_analysis(cpu_context& cpu, const capture_set& source, const bucket_edges& buckets,
                                         const author_options& options, const std::function<void(index_t)>& progress);

/// The three tables of attention-plasticity under its file names and columns, so that programs that read those work on
/// ours.

/// head_metrics.csv: a row per head.
qkgeom::table head_metrics_table(const std::vector<author_head>& heads);
/// head_bucket_plasticity.csv: a row per head, query bucket and earlier key bucket. `first_bucket` is the number of the
/// grid's first bucket.
qkgeom::table head_bucket_plasticity_table(const std::vector<author_head>& heads, index_t first_bucket = 0);
/// head_component_weights.csv: a row per head and coordinate.
qkgeom::table head_component_weights_table(const std::vector<author_head>& heads);

namespace detail {

/// -1 where the keys' mean over the means of their buckets is negative, else 1.
std::vector<double> key_signs(const side_moments& keys);
/// The moments of rows whose coordinates are multiplied by `sign`.
row_moments flipped(row_moments m, const std::vector<double>& sign);
/// The pairs of one query head against its flipped keys, head 0 of a tensor: the score distribution under
/// `linear_drift` of each query bucket.
pair_problem author_problem(const query_model& model);

}  // namespace detail

/// Options of `plasticity --preset attention-plasticity`.
struct preset_arguments {
  std::string name;  ///< empty: no preset
  author_options tool{};
};

/// --preset, --alpha, --max-tokens and --max-dims; only a preset reads the last three.
void add_preset_arguments(command_line& app, preset_arguments& preset);

/// Writes head_metrics.csv, head_bucket_plasticity.csv and head_component_weights.csv with the definitions of the
/// thesis author's tool attention-plasticity, and prints a summary.
void run_preset(const arguments& a, const preset_arguments& preset);

}  // namespace qkgeom::examples
