// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/common/cli.hpp"
#include "examples/common/table.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {
class capture_set;
struct captured_layer;
}  // namespace qkgeom

namespace qkgeom::examples {

/// Captures read as one, with their report. The reader is only forward-declared: it is slow to compile.
struct analysed {
  std::shared_ptr<const capture_set> source;
  model_report report;

  captured_layer rows(index_t layer) const;
};

/// `options` with the settings of the command line. Throws `error` if it names no query model.
analysis_options with_arguments(analysis_options options, const arguments& a);

/// Opens the captures and analyses every head on `a.device`, with a progress bar.
analysed analyse_capture(const arguments& a, analysis_options options);

/// False for captures that hold nothing but moments and statistics. A single file states no number of rows: true.
bool has_rows(const capture_set& source);

/// The captures that `a` names, of the documents and up to the position that it names.
capture_set open_captures(const arguments& a);

/// The same analysis of captures that are open, or that something changed.
analysed analyse_set(const arguments& a, capture_set source, analysis_options options, const std::string& label);

/// Throws `error` if a capture holds the heads of indexers; `why`, the end of a sentence, says what needs others.
void require_attention(const capture_set& source, const std::string& why);

/// Throws `error` unless each name is LAYER.HEAD of a captured head. Reads no rows.
void require_heads(const arguments& a, const std::vector<std::string>& names);

/// The notes on the captures themselves, for programs that analyse them in a way of their own.
std::vector<report_note> notes_on_captures(const arguments& a);

/// Prints a line for each note; `about` names what they are about where there are several.
void print_notes(printer& out, const std::vector<report_note>& notes, const std::string& about = {});

/// Prints the model, the extent of the capture, and the report's notes.
void print_capture(printer& out, const analysed& a);

/// A program's output folder; keeps the names of the files written to it. Without `figures` it holds tables alone.
class output_folder {
 public:
  output_folder(std::filesystem::path path, bool figures) : path_(std::move(path)), draws_(figures) {}

  /// Writes a table, e.g. "qk.csv", and the meanings of its columns to columns.csv.
  void write(const std::string& name, const qkgeom::table& t);
  /// Path of another table or file of data, e.g. "conditions.json".
  std::filesystem::path table(const std::string& name);
  /// Path of a figure without extension; empty, which draws nothing, where the folder holds tables alone.
  std::filesystem::path figure(const std::string& name);
  /// Path of an HTML page, e.g. "report.html".
  std::filesystem::path page(const std::string& name);
  /// Prints the names of all files.
  void print(printer& out) const;

  const std::filesystem::path& path() const { return path_; }
  bool draws() const { return draws_; }
  const std::vector<std::string>& tables() const { return tables_; }
  const std::vector<std::string>& figures() const { return figures_; }

 private:
  std::filesystem::path path_;
  bool draws_;
  std::vector<std::string> tables_, figures_, pages_;
};

/// Parses LAYER.HEAD of a command line's option.
head_id parse_head(const std::string& text, const std::string& option = "--head");

/// Writes notes.csv.
void write_notes(output_folder& out, const analysed& a);
/// The heads whose planes are drawn: those of `names`, by default those with the largest and the smallest |bias
/// strength|.
std::vector<const head_report*> heads_to_draw(const model_report& report, const std::vector<std::string>& names);
/// Writes qk.csv, the scatter of r_q and r_k, and their map.
void write_pca(output_folder& out, const analysed& a, const class_thresholds& thresholds);
/// Writes rotated.csv, histogram and map of the bias strength, and the planes of `heads_to_draw(heads)`. Colours of the
/// map end at +-`bias_limit`; 0: at its largest value.
void write_rotation(output_folder& out, const analysed& a, const std::vector<std::string>& heads,
                    double bias_limit = 0);
/// Writes profile.csv, heatmap.csv, bins.csv and the figures profile, heatmap and plasticity_map.
void write_plasticity(output_folder& out, const analysed& a);
/// Writes heads.csv, layers.csv and the tables of means over heads: model_report.csv, model_columns.csv,
/// model_heatmap.csv, heterogeneity.csv, recovery.csv.
void write_heads(output_folder& out, const analysed& a);

/// All of these tables and figures, with the planes of `heads`.
void write_analysis(output_folder& out, const analysed& a, const class_thresholds& thresholds,
                    const std::vector<std::string>& heads);

}  // namespace qkgeom::examples
