// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/common/arguments.hpp"
#include "examples/common/table.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {
class capture_set;
struct captured_layer;
}  // namespace qkgeom

namespace qkgeom::examples {

/// Captures read as one and what was found in them. The reader stays out of this header, it is dear to compile.
struct analysed {
  std::shared_ptr<const capture_set> source;
  model_report report;

  captured_layer rows(index_t layer) const;
};

/// `options` with buckets, query models and seed from the command line. Throws `error` if that names no query model.
analysis_options with_arguments(analysis_options options, const arguments& a);

/// Opens the captures and analyses every head of them on `a.device`, with a progress bar.
analysed analyse_capture(const arguments& a, analysis_options options);

/// Throws `error` unless every name is LAYER.HEAD and the captures hold that head. Reads no rows.
void require_heads(const arguments& a, const std::vector<std::string>& names);

/// The model, and how much of it was captured.
void print_capture(printer& out, const analysed& a);

/// The folder that a program writes to, and what it has written there.
class output_folder {
 public:
  explicit output_folder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Path of a table, e.g. "qk.csv".
  std::filesystem::path table(const std::string& name);
  /// Path of a figure without ending.
  std::filesystem::path figure(const std::string& name);
  /// Path of a page to read, e.g. "report.html".
  std::filesystem::path page(const std::string& name);
  /// Says what was written since the folder was opened.
  void print(printer& out) const;

  const std::filesystem::path& path() const { return path_; }
  /// Names of the figures so far.
  const std::vector<std::string>& figures() const { return figures_; }

 private:
  std::filesystem::path path_;
  std::vector<std::string> tables_, figures_, pages_;
};

/// A head named on the command line, "L.H".
struct chosen_head {
  index_t layer = 0, head = 0;
};
chosen_head parse_head(const std::string& text);

/// qk.csv, the scatter of r_q and r_k, their map.
void write_pca(output_folder& out, const analysed& a, const class_thresholds& thresholds);
/// rotated.csv, histogram and map of the bias strength, the plane of each chosen head; of the strongest and the weakest
/// by |bias strength| if none is chosen. Colours of the map end at +-`bias_limit`; 0: at its largest value.
void write_rotation(output_folder& out, const analysed& a, const std::vector<std::string>& heads,
                    double bias_limit = 0);
/// profile.csv, heatmap.csv, bins.csv and the figures of profile, heatmap and plasticity by layer and head.
void write_plasticity(output_folder& out, const analysed& a);
/// heads.csv, layers.csv, and what a model's heads say together: model_report.csv, model_columns.csv,
/// model_heatmap.csv, heterogeneity.csv, recovery.csv.
void write_heads(output_folder& out, const analysed& a);

}  // namespace qkgeom::examples
