// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/columns.hpp"

namespace qkgeom {

/// Each `write_` function writes one CSV file with the field's column names, which appears whole; null is an empty
/// field. They throw `error` if the report was made without the analyses that the table needs.

/// heads.csv: a row per head, all analyses side by side.
inline void write_heads_csv(const std::filesystem::path& path, const model_report& report);
/// qk.csv: a row per head and principal component.
inline void write_qk_csv(const std::filesystem::path& path, const model_report& report);
/// rotated.csv: a row per head with the rotation's numbers.
inline void write_rotated_csv(const std::filesystem::path& path, const model_report& report);
/// profile.csv: a row per head, query bucket and model; `empirical` is the plug-in form, `empirical_unbiased` n/(n-1)
/// times it. `sampling_error` is what drawing pairs adds, 0 where all were used.
inline void write_profile_csv(const std::filesystem::path& path, const model_report& report);
/// heatmap.csv: a row per head and cell with pairs; distances in tokens, the cell's lower edge.
inline void write_heatmap_csv(const std::filesystem::path& path, const model_report& report);
/// bins.csv: means of the headline profile over quintiles, deciles and length bins; start and end in tokens.
inline void write_bins_csv(const std::filesystem::path& path, const model_report& report);
/// model_report.csv: one row, means over heads of the headline summaries and of the ten deciles.
inline void write_model_report_csv(const std::filesystem::path& path, const model_report& report);

/// All of these tables, by their names, into a folder; heatmap.csv where the analysis made heatmaps.
inline void write_head_tables(const std::filesystem::path& folder, const model_report& report, bool heatmap);

/// Add the rows of a report to a table in memory: `Table` has `add`, `row` and `end_row` as `csv_writer` has them.
template <class Table>
void add_heads_rows(Table& table, const model_report& report);
template <class Table>
void add_qk_rows(Table& table, const model_report& report);
template <class Table>
void add_rotated_rows(Table& table, const model_report& report);
template <class Table>
void add_profile_rows(Table& table, const model_report& report);
template <class Table>
void add_heatmap_rows(Table& table, const model_report& report);
template <class Table>
void add_bins_rows(Table& table, const model_report& report);

/// The columns of one of these tables and what adds the rows of a report, for files that hold several reports.
struct head_table {
  std::vector<std::string> columns;
  void (*add_rows)(csv_writer&, const model_report&);
};
inline head_table heads_table();
inline head_table qk_table();
inline head_table rotated_table();
inline head_table profile_table();
inline head_table heatmap_table();
inline head_table bins_table();

}  // namespace qkgeom

#include "qkgeom/report/detail/head_csv.hpp"
