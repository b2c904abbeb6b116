// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom::examples {

/// One number of every head, with all documents and without some.
struct head_values {
  std::string name;                          ///< as in heads.csv
  std::vector<double> value;                 ///< (heads), NaN is null
  std::vector<std::vector<double>> without;  ///< (documents or blocks of them)(heads); empty: no error is known

  /// The values without document `left_out`; -1: with all.
  const std::vector<double>& at(index_t left_out) const { return left_out < 0 ? value : without[left_out]; }
  /// The same of a group's heads, those that are NaN left out.
  std::vector<double> at(index_t left_out, const std::vector<std::size_t>& heads) const {
    return values_of(at(left_out), heads);
  }
  /// Whether leaving out a document changes the value of one of these heads.
  bool changes(std::size_t document, const std::vector<std::size_t>& heads) const;
};

/// A number of a group of heads, with its values without each document (or block of them), so that differences from
/// other numbers have errors too.
struct group_number {
  std::string name;
  double value = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> without;  ///< (documents or blocks), NaN: it changes nothing; empty: no error is known
  double head_error = std::numeric_limits<double>::quiet_NaN();

  head_estimate estimate() const;
};

/// A statistic of one number over a group of heads.
group_number number_over(const head_values& column, const std::vector<std::size_t>& heads, head_statistic statistic);
inline head_estimate over_heads(const head_values& column, const std::vector<std::size_t>& heads,
                                head_statistic statistic) {
  return number_over(column, heads, statistic).estimate();
}

/// A number made of some columns over a group of heads, with both its errors: `value(e, heads)` gives it without
/// document e (-1: with all). Both errors are jackknives, so the number must be a smooth function of each head's value.
/// Documents that change nothing are left out of the jackknife.
head_estimate estimate_over_heads(const std::vector<const head_values*>& columns, const std::vector<std::size_t>& heads,
                                  const std::function<double(index_t, const std::vector<std::size_t>&)>& value);

/// Documents behind the headline profiles, ascending; empty if pairs run across documents.
std::vector<std::int32_t> profile_documents(const model_report& report);

/// The mean plasticity of every head, headline model, over the query buckets whose middle lies in [start, end), tokens,
/// as in `bin_means`, with all documents and without each.
head_values plasticity_between(const model_report& report, double start, double end);

/// The same for each query bucket.
std::vector<head_values> plasticity_by_bucket(const model_report& report);

/// A head of the model.
struct head_place {
  index_t layer = 0, q_head = 0;
  bool rope = true;
  bool operator==(const head_place&) const = default;
};

/// One report, for example of a checkpoint: every number of heads.csv of every head, the same without some of the
/// documents, and the head classes. Holds no profiles, so that many fit into memory.
struct trajectory_point {
  std::string label;
  index_t context_length = 0;  ///< tokens
  std::optional<double> heldout_loss;
  document_blocks blocks;  ///< left out for errors of the geometry; points with equal blocks are compared in pairs
  std::vector<head_place> heads;
  std::vector<head_values> columns;
  std::vector<head_class> classes;                       ///< (heads)
  std::vector<std::vector<head_class>> classes_without;  ///< (blocks)(heads)

  /// Throws `error` if there is no such column.
  const head_values& column(const std::string& name) const;
};

/// The point of a report of `analyse`; errors of PCA and rotation need `geometry_blocks`. Throws `error` if the report
/// has no heads or no geometry.
trajectory_point point_of(const model_report& report, std::string label,
                          std::optional<double> heldout_loss = std::nullopt);

/// Throws `error` unless both points have the same heads and the same columns.
void check_comparable(const trajectory_point& a, const trajectory_point& b);

/// Shares of a group's heads: in a class, and with a positive bias strength.
group_number class_share(const trajectory_point& point, const std::vector<std::size_t>& heads, head_class wanted);
group_number positive_bias_share(const trajectory_point& point, const std::vector<std::size_t>& heads);

/// One column of heads.csv over the heads of a group.
struct column_summary {
  std::string group, column;
  index_t heads = 0;  ///< that have a value
  head_estimate mean, mean_abs, median;
};

/// Signed mean, mean of absolute values and median over heads of every column, for all heads, then RoPE and NoPE layers
/// apart where the model has both. Errors over documents need a report made with `geometry_blocks`, for PCA and
/// rotation; those of plasticity are given the query model. Throws if the report has no heads or no geometry.
std::vector<column_summary> column_summaries(const model_report& report);

/// model_columns.csv: a row per group of heads and column of heads.csv.
qkgeom::table model_columns_table(const std::vector<column_summary>& summaries);

/// layers.csv: a row per layer, means of every number in heads.csv over its heads; errors over documents are known as
/// for `column_summaries`. Throws as that does.
qkgeom::table layers_table(const model_report& report);

}  // namespace qkgeom::examples
