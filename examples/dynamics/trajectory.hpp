// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "examples/common/numbers/causes.hpp"
#include "examples/common/numbers/head_values.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/table.hpp"

namespace qkgeom::examples {

/// How many heads of a group went from one class to another between two checkpoints.
struct class_transition {
  head_class from{}, to{};
  index_t heads = 0;
  head_estimate share;  ///< of the group's heads
};

/// The mean bias over heads in factors: bias = mu alpha covariance, where `covariance` is 1 + cov(mu_Q^a, alpha_K) /
/// (mu alpha), cov dividing by the number of heads. Above 1: heads with a large mu have a large alpha.
struct bias_factors {
  double bias = 0, mu = 0, alpha = 0, covariance = 0;
};

/// The change of log |mean bias| between two checkpoints and the three changes that add up to it.
struct bias_split {
  bool absolute = false;     ///< means of |mu_Q^a|, |alpha_K| and |bias|; else signed means
  bool per_context = false;  ///< alpha_K L in place of alpha_K
  bias_factors from, to;
  head_estimate bias, mu, alpha, covariance;  ///< natural logs of the ratios; bias = mu + alpha + covariance
};

/// Pairs of consecutive checkpoints, then the first and the last where that is another pair; by index.
std::vector<std::pair<std::size_t, std::size_t>> checkpoint_steps(const std::vector<trajectory_point>& points);

/// The 25 transitions between head classes, row by row of `all_head_classes`. Throws if the heads differ.
std::vector<class_transition> class_transitions(const trajectory_point& from, const trajectory_point& to,
                                                const std::vector<std::size_t>& group);

/// Splits the change of the log of the mean bias over a group of heads, exactly. Since mean(mu alpha) = mean(mu)
/// mean(alpha) + cov(mu, alpha), the mean bias is the product mean(mu) mean(alpha) (1 + cov / (mean(mu) mean(alpha))),
/// and the logs of the three ratios add up to that of the bias. Per context, alpha_K L takes the place of alpha_K: its
/// change gains log(L_to / L_from), the others stay. Signed means can cross 0, where the logs compare sizes alone;
/// means of absolute values cannot. `error` is a jackknife over documents with the geometry found again (the same
/// documents left out of both checkpoints), `head_error` one over heads. Throws `error` if the heads differ.
bias_split split_bias(const trajectory_point& from, const trajectory_point& to, const std::vector<std::size_t>& group,
                      bool absolute, bool per_context);

/// trajectory.csv: a row per checkpoint and group of heads: statistics of every column of heads.csv, shares of classes.
qkgeom::table trajectory_table(const std::vector<trajectory_point>& points);

/// transitions.csv: for consecutive checkpoints, then from the first to the last, and each group, a row per pair
/// of head classes.
qkgeom::table transitions_table(const std::vector<trajectory_point>& points);

/// bias_split.csv: for the same pairs of checkpoints, signed and absolute means, per token and per context, see
/// `split_bias`.
qkgeom::table bias_split_table(const std::vector<trajectory_point>& points);

/// Two checkpoints, and each with the other's rotary embedding and context length.
struct embedding_step {
  std::string from, to;
  bool differs = false;  ///< whether embedding or length do
  /// The first; the first under the second's embedding; the second under the first's; the second.
  std::vector<trajectory_point> with;
};

/// The steps of `checkpoint_steps` whose captures hold rows and say their embedding; a note on stderr names the others.
/// Rows meet another embedding as in `what_if`. Takes two analyses for each step that differs.
std::vector<embedding_step> swap_embeddings(const arguments& a, const analysis_options& options,
                                            const std::vector<trajectory_point>& points,
                                            const std::vector<std::shared_ptr<const capture_set>>& sources);

/// embedding_split.csv.
void write_embedding_steps(output_folder& out, const std::vector<embedding_step>& steps);
void print_embedding_steps(printer& out, const std::vector<embedding_step>& steps);

/// Reads the held-out loss of checkpoints from a CSV file with the columns checkpoint,heldout_loss. Throws `error` if a
/// checkpoint occurs twice or none of `labels` occurs.
std::map<std::string, double> read_losses(const std::filesystem::path& path, const std::vector<std::string>& labels);

/// Writes trajectory.csv, transitions.csv, bias_split.csv and the figures, for at least two checkpoints. `model` names
/// the query model of the columns ap_*.
void write_dynamics(output_folder& out, const std::vector<trajectory_point>& points, const std::string& model);

/// Prints the trajectory, the split of the bias and the class changes as tables.
void print_dynamics(printer& out, const std::vector<trajectory_point>& points, const std::string& model);

}  // namespace qkgeom::examples
