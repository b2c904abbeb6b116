// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/plasticity/decay.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// Tables of heads are named after their files (docs/columns.md). A table refers to the report, which must outlive it.
/// These functions throw `error` if the report was made without the analyses that the table needs.

/// Returns heads.csv: a row per head, all analyses side by side.
table heads_table(const model_report& report);
/// Returns qk.csv: a row per head and principal component.
table qk_table(const model_report& report);
/// Returns rotated.csv: a row per head with the rotation's numbers.
table rotated_table(const model_report& report);
/// Returns profile.csv: a row per head, query bucket and model.
table profile_table(const model_report& report);
/// Returns heatmap.csv: a row per head and cell with pairs.
table heatmap_table(const model_report& report);
/// Returns bins.csv: means of the headline profile over quintiles, deciles and length bins.
table bins_table(const model_report& report);
/// Returns model_report.csv: one row, means over heads of the headline summaries and of the ten deciles.
table model_report_table(const model_report& report);

/// Writes all of these tables into a folder; heatmap.csv if `heatmap`.
void write_head_tables(const std::filesystem::path& folder, const model_report& report, bool heatmap);

/// Returns components.csv, the terms of each profile that has them: a row per query bucket (`level` is bucket; start
/// and end in tokens) and a row per heatmap cell with pairs (`level` is cell; distances in tokens, the cell's lower
/// edge): pair means and their errors over documents. Throws `error` if no profile has terms.
table components_table(const model_report& report);

/// Returns later_keys.csv: P(later key wins) and whether the bias agrees, a row per head with terms in its headline.
table later_keys_table(const model_report& report);

/// Returns bucket_table.csv: a row per head, query bucket and key bucket with pairs; starts and ends in tokens.
/// `tables`: one per head of the report; throws `error` if their number differs.
table bucket_table_table(const model_report& report, const std::vector<plasticity_bucket_table>& tables);

struct model_heatmap_options {
  double least_pairs = 30;  ///< pairs (sum of weights) from which a head counts in a cell
};

/// Mean over heads of their headline heatmaps, cell by cell.
struct model_heatmap {
  std::string group;
  index_t cell = 0, width = 0;     ///< tokens; cells along each side
  std::vector<double> plasticity;  ///< (key distance, query distance) mean of the heads' means; NaN without a head
  std::vector<double> head_error;  ///< from drawing the heads: their deviation over sqrt(heads); NaN below two
  std::vector<index_t> heads;      ///< heads with enough pairs in the cell
  std::vector<double> pairs;       ///< pairs of these heads
};

/// Computes the heatmap of the heads with these indices. Throws `error` if their cells differ in width.
model_heatmap heatmap_of(const model_report& report, std::string group, const std::vector<std::size_t>& heads,
                         const model_heatmap_options& options = {});

/// Computes the heatmaps of all heads, then of RoPE and of NoPE layers apart if the model has both.
std::vector<model_heatmap> model_heatmaps(const model_report& report, const model_heatmap_options& options = {});

/// Returns model_heatmap.csv: a row per group of heads and cell with a head; distances in tokens, the cell's lower
/// edge.
table model_heatmap_table(const std::vector<model_heatmap>& maps);

/// The decay theorem on one head of a model.
struct head_decay {
  index_t layer = 0, q_head = 0, k_head = 0;
  decay_check decay;
};

/// Returns decay.csv: a row per head and covariance (`full`, `pooled`): constants of the theorem over pairs of keys (10
/// %, 50 %, 90 % quantiles; slopes per token, t_0 in tokens), pi_0, AP_infinity, and over all pairs and buckets the
/// share past T_0 and the share that breaks the bound there; `_error` is the jackknife over documents at a fixed model.
table decay_table(const std::vector<head_decay>& heads);

/// Returns decay_profile.csv: a row per head, covariance and query bucket: AP_t of the same pairs, the aggregate bound
/// mean(min(1, exp(-gamma^2 t^2 / 8))), the bound with 1 for pairs before T_0 (`promised`), and the shares.
table decay_profile_table(const std::vector<head_decay>& heads);

/// The complement planes of one head of a model.
struct head_complement {
  index_t layer = 0, q_head = 0, k_head = 0;
  complement_result complement;
};

/// Returns complement.csv: a row per head and plane of its complement; for queries (q_) and keys (k_): 1 if the plane
/// rotates with position, the frequency in radians per token, the resultant, the level and number of permutations, and
/// the plane's share of that side's variance; `variance_share` is of the pooled variance.
table complement_table(const std::vector<head_complement>& heads);

}  // namespace qkgeom
