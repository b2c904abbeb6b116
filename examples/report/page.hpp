// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "examples/common/softmax.hpp"
#include "examples/report/html.hpp"
#include "examples/report/target.hpp"
#include "qkgeom/geometry/head_class.hpp"

namespace qkgeom::examples {

/// Limits of the colour scales, fixed so that two reports can be compared side by side.
struct fixed_scales {
  double bias = 20;       ///< +- bias strength times the context, logits
  double bias_in_sd = 2;  ///< +- the same in standard deviations of a score difference
};

/// Settings for the report's notes; captures and analysis hold the rest.
struct report_settings {
  std::string command, version;
  arguments choice{};
  class_thresholds thresholds{};
  fixed_scales scales{};
  bool refit_errors = false;
};

/// The sections of a report.
struct report_content {
  std::string title;                           ///< of the window, plain text
  std::vector<page_printer::section> result;   ///< the target and the place among other models
  std::vector<page_printer::section> summary;  ///< tables of the model; the first section describes the capture
  std::string figures, heads, notes;           ///< HTML
};

/// A figure of the page: an SVG element whose ids are unique in the page.
struct page_figure {
  std::string name;
  std::string element;  ///< "<svg ...>...</svg>"
};
/// A figure that gnuplot wrote to `folder`.
page_figure drawn_figure(const output_folder& folder, const std::string& name);
/// A figure with its caption.
std::string figure_html(const page_figure& figure);
/// The meaning of the colours and the figures.
std::string figures_html(const std::vector<page_figure>& figures, const fixed_scales& scales);

/// A table with a row per head; scripts sort and filter it.
std::string heads_html(const model_report& report);

/// The report's notes: settings, captures with their documents, definitions.
std::string notes_html(const analysed& a, const report_settings& settings);

/// Every section but the figures.
report_content report_sections(const analysed& found, const report_settings& settings,
                               const forward_statistics& statistics);

/// The whole page; it loads nothing.
std::string report_page(const report_content& content);

/// The page's style sheet and script.
const char* page_style();
const char* page_script();

/// argv as a line for a shell.
std::string shell_line(int argc, char** argv);

}  // namespace qkgeom::examples
