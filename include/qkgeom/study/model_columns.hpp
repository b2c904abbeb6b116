// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/study/trajectory.hpp"

namespace qkgeom {

/// One column of heads.csv over the heads of a group.
struct column_summary {
  std::string group, column;
  index_t heads = 0;  ///< that have a value
  head_estimate mean, mean_abs, median;
};

/// Signed mean, mean of absolute values and median over heads of every column, for all heads, then RoPE and NoPE layers
/// apart where the model has both. Errors over documents need a report made with `geometry_blocks`, for PCA and
/// rotation; those of plasticity are given the query model. Throws if the report has no heads or no geometry.
inline std::vector<column_summary> column_summaries(const model_report& report) {
  const auto point = point_of(report, report.model);
  std::vector<column_summary> all;
  for (const auto& [name, heads] : head_groups(report.heads))
    for (const auto& c : point.columns)
      all.push_back({name, c.name, static_cast<index_t>(values_of(c.value, heads).size()),
                     over_heads(c, heads, head_statistic::mean), over_heads(c, heads, head_statistic::mean_abs),
                     over_heads(c, heads, head_statistic::median)});
  return all;
}

/// model_columns.csv: a row per group of heads and column of heads.csv; `_error` is the jackknife over documents,
/// `_head_error` the error of drawing these heads.
inline void write_model_columns_csv(const std::filesystem::path& path, const std::vector<column_summary>& summaries) {
  std::vector<std::string> names{"group", "column", "heads"};
  for (const auto s : all_head_statistics) add_head_estimate_names(names, std::string(name_of(s)));
  csv_writer csv(path, names);
  for (const auto& s : summaries) {
    csv.add(s.group).add(s.column).add(s.heads);
    for (const auto* e : {&s.mean, &s.mean_abs, &s.median}) add_estimate(csv, *e);
    csv.end_row();
  }
  csv.commit();
}

/// layers.csv: a row per layer, means of every number in heads.csv over its heads. `_error` is the jackknife
/// over documents, known as for `column_summaries`; `_head_error` the error of drawing these heads. Throws as that
/// does.
inline void write_layers_csv(const std::filesystem::path& path, const model_report& report) {
  const auto point = point_of(report, report.model);
  // Errors of a head are left out: the mean has an error of its own.
  const auto is_error = [](const std::string& name) { return name.ends_with("_error"); };
  std::vector<std::string> names{"layer", "rope", "heads"};
  for (const auto& c : point.columns)
    if (!is_error(c.name)) add_head_estimate_names(names, c.name);
  csv_writer csv(path, names);
  std::map<index_t, std::vector<std::size_t>> layers;
  for (std::size_t h = 0; h < report.heads.size(); ++h) layers[report.heads[h].layer].push_back(h);
  for (const auto& [layer, heads] : layers) {
    csv.add(layer).add(report.heads[heads[0]].rope).add(heads.size());
    for (const auto& c : point.columns) {
      if (is_error(c.name)) continue;
      add_estimate(csv, over_heads(c, heads, head_statistic::mean));
    }
    csv.end_row();
  }
  csv.commit();
}

}  // namespace qkgeom
