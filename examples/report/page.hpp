// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "examples/common/outputs.hpp"
#include "examples/common/softmax.hpp"
#include "examples/common/table.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {

/// Escapes `text` for use between tags or inside a quoted attribute. Bytes that are not UTF-8 and characters that HTML
/// forbids become U+FFFD.
std::string html_text(std::string_view text);

/// `html_text` that keeps numbers like 1 234 567 on one line.
std::string html_words(std::string_view text);

/// An SVG of gnuplot or matplotlib as an element of a page: ids and references get `prefix`, so that figures share no
/// id; prolog, namespaces, titles and style sheets are dropped; the element gets `attributes`. Throws `error` at other
/// markup than a drawing's.
std::string inline_svg(const std::string& svg, const std::string& prefix, const std::string& attributes);

/// A table as HTML, in a box that scrolls if the table is too wide. `label` names it to screen readers.
std::string html_table(const table& t, const std::string& label);

/// Collects printed text and tables as sections of a page.
class page_printer : public printer {
 public:
  struct section {
    std::string heading;  ///< plain text
    std::string body;     ///< HTML
  };

  page_printer() : printer(nullptr) {}
  void heading(const std::string& text) override { sections_.push_back({text, {}}); }
  void line(const std::string& text = {}) override;
  void print(const table& t) override;
  /// Appends HTML as it is.
  void add(const std::string& html) { last().body += html; }

  const std::vector<section>& sections() const { return sections_; }

 private:
  section& last();
  std::vector<section> sections_;
};

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
  std::string title;                            ///< of the window, plain text
  std::vector<page_printer::section> result;    ///< the target and the place among other models
  std::vector<page_printer::section> summary;   ///< tables of the model; the first section describes the capture
  std::string overview, figures, heads, notes;  ///< HTML
  std::string data;                             ///< JSON of every head, from which the page's script draws it
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
/// The first screen: the verdict, three numbers, the profile among `figures`, and a map of the heads, each a link to
/// its row of the table.
std::string overview_html(const model_report& report, const std::vector<page_figure>& figures);

/// Profiles, heatmap and plane of every head as JSON. Reads the rows of each layer once.
std::string head_data(const analysed& a);

/// The meaning of the colours, and the figures but the profile, which stands on the first screen.
std::string figures_html(const std::vector<page_figure>& figures, const fixed_scales& scales);

/// A table with a row per head; scripts sort and filter it.
std::string heads_html(const model_report& report);

/// The report's notes: settings, captures with their documents, definitions.
std::string notes_html(const analysed& a, const report_settings& settings);

/// Every section but the first screen and the figures.
report_content report_sections(const analysed& found, const report_settings& settings,
                               const forward_statistics& statistics);

/// The whole page; it loads nothing.
std::string report_page(const report_content& content);

/// The page's style sheet and script.
const char* page_style();
const char* page_script();

/// argv as a line for a shell.
std::string shell_line(int argc, char** argv);

/// The thesis' target for long-context training (7.4): AP_drop below this over at least `target_context` tokens.
inline constexpr double drop_target = 0.10;
inline constexpr index_t target_context = 131072;

enum class verdict { met, not_met, open };

/// Met or not met if the 95 % interval of AP_drop does not hold the target, else open; open without an error.
inline verdict judge(const estimate& drop, double target = drop_target) {
  if (!(std::abs(drop.value - target) > half_width(drop))) return verdict::open;
  return drop.value < target ? verdict::met : verdict::not_met;
}
/// "met", "not met", "cannot be said".
std::string words_of(verdict v);

/// One sentence: whether the mean AP_drop of all heads meets the target over `context_length` tokens, with its error.
std::string target_statement(const estimate& drop, index_t context_length);

/// Prints the verdict under the headline query model, unless it is said elsewhere, and a table of AP_drop under all
/// query models and the observed queries, RoPE and NoPE layers apart.
void print_target(printer& out, const model_report& report, bool verdict_too);

/// A model with its AP_drop and its benchmark score.
struct scored_model {
  std::string name;
  double drop = 0, score = 0;
};

/// Reads models from a CSV file; `columns` names those of name, AP_drop and score. Skips rows without both numbers.
/// Throws `error` if a column is missing or no model is left.
std::vector<scored_model> read_scored_models(const std::filesystem::path& file,
                                             const std::vector<std::string>& columns);

double median_score(const std::vector<scored_model>& models);

/// A model's place among others: its AP_drop against the target, its score against the others' median.
struct quadrant {
  verdict flat = verdict::open;
  bool high = false;      ///< score at or above the median
  std::string statement;  ///< with the thesis' name of the quadrant (7.2)
};
quadrant quadrant_of(const estimate& drop, double score, double median);

/// AP_drop against score: other models, this model with a bar of its 95 % interval, lines at the target and at the
/// others' median score.
struct quadrant_figure {
  std::string title, subtitle, score_name;
  std::string model;
  estimate drop;
  double score = 0;
  std::vector<scored_model> others;
};
void draw(const quadrant_figure& figure, const std::filesystem::path& stem);

}  // namespace qkgeom::examples
