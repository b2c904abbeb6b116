// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "examples/report/html.hpp"
#include "examples/report/target.hpp"
#include "qkgeom/geometry/head_class.hpp"

namespace qkgeom::examples {

/// Limits of the colours that no other program fixes, so that two reports can be held side by side.
struct fixed_scales {
  double bias = 100;      ///< bias_strength times the context, +-
  double bias_in_sd = 2;  ///< the same in standard deviations of a score difference, +-
};

/// How a report was made: what its notes say beside what captures and analysis know themselves.
struct report_settings {
  std::string command, version;
  arguments choice{};
  class_thresholds thresholds{};
  fixed_scales scales{};
  bool refit_errors = false;
};

/// One report, part by part; plain text but for what is named HTML.
struct report_content {
  std::string title;                           ///< of the window
  std::vector<page_printer::section> result;   ///< the target, the model among others
  std::vector<page_printer::section> summary;  ///< tables of the model; the first has the capture's words
  std::string figures, heads, notes;           ///< HTML
};

/// A figure that was drawn into `folder`, with its caption.
std::string figure_html(const output_folder& folder, const std::string& name);
/// All of them but the quadrant's, which stands with the target, after what their colours mean.
std::string figures_html(const output_folder& folder, const fixed_scales& scales);
/// What one figure shows, with the section or the equation of the thesis.
std::string figure_caption(const std::string& name);

/// A row a head, with the controls that sort and filter it where scripts run.
std::string heads_html(const model_report& report);

/// Settings, captures with their documents, definitions.
std::string notes_html(const analysed& a, const report_settings& settings);

/// The whole page: one file that loads nothing.
std::string report_page(const report_content& content);

/// The page's style sheet and its script.
const char* page_style();
const char* page_script();

/// argv as one line that a shell reads back.
std::string command_line(int argc, char** argv);

}  // namespace qkgeom::examples
