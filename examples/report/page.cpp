// SPDX-License-Identifier: MIT
#include "examples/report/page.hpp"

#include <algorithm>

#include "examples/common/figures/gnuplot.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom::examples {
namespace {

struct caption {
  const char *name, *words;
};

constexpr caption captions[] = {
    {"quadrant",
     "AP_drop against the score (6.4.2, 7.2). Dashed: the target and the others' median score. Bar: two standard "
     "errors. The others as their file has them, each at its own context."},
    {"qk_scatter",
     "Correlation with position of queries and keys on PCA component 0 (4.2), a mark per head. Shaded: head classes."},
    {"qk_map", "Correlation with position on PCA component 0, by layer and head."},
    {"bias_histogram", "Bias strength (4.6) times the context in logits, heads counted."},
    {"bias_map", "Bias strength times the context in logits, by layer and head."},
    {"bias_in_sd_map",
     "Bias strength times the context over the standard deviation of the score difference of two keys of one "
     "document."},
    {"plane_",
     "Queries and keys of one head in the plane of drift a and separation b (4.3.2). Lines: their means along the "
     "context."},
    {"grip_curves",
     "Share of the needles that are still among the highest scores as more keys compete; means over heads. Dashed: "
     "chance."},
    {"grip_map", "Grip in the whole context, by layer and head."},
    {"profile", "Plasticity along the context (4.4.5)."},
    {"heatmap", "Plasticity by the distance of two keys and of the query (6.2.2), mean over heads."},
    {"plasticity_map", "Mean plasticity over the context, by layer and head."},
    {"softmax_first", "Share of the attention on the first token of the document."},
    {"softmax_entropy", "Entropy of the attention along the context."},
    {"softmax_distance", "Share of the attention by distance from query to key."},
    {"loss", "Loss of the next token along the context."}};

std::string section_html(const std::string& id, const std::string& heading, const std::string& body) {
  return body.empty() ? std::string()
                      : "<section id=\"" + id + "\" aria-labelledby=\"" + id + "-heading\">\n<h2 id=\"" + id +
                            "-heading\">" + html_text(heading) + "</h2>\n" + body + "</section>\n";
}

std::string parts_html(const std::vector<page_printer::section>& parts, std::size_t from) {
  std::string s;
  for (std::size_t i = from; i < parts.size(); ++i)
    s += "<h3>" + html_text(parts[i].heading) + "</h3>\n" + parts[i].body;
  return s;
}

/// Caption of a figure, with the section or equation of the thesis.
std::string figure_caption(const std::string& name) {
  for (const auto& c : captions)
    if (name == c.name || (std::string_view(c.name) == "plane_" && name.starts_with(c.name))) return c.words;
  return name;
}

}  // namespace

page_figure drawn_figure(const output_folder& folder, const std::string& name) {
  const std::string svg = read_text(folder.path() / (name + ".svg"), std::size_t{1} << 28);
  return {name, inline_svg(svg, name + "-", "")};
}

std::string figure_html(const page_figure& figure) {
  const std::string id = "figure-" + figure.name, by = "aria-labelledby=\"" + id + "-caption\"";
  require(figure.element.starts_with("<svg"), "figure ", figure.name, ": no svg element");
  return "<figure id=\"" + id + "\">\n<div class=\"scroll card\" role=\"region\" tabindex=\"0\" " + by + ">\n" +
         "<svg role=\"img\" " + by + figure.element.substr(4) + "\n</div>\n<figcaption id=\"" + id + "-caption\">" +
         html_text(figure_caption(figure.name)) + "</figcaption>\n</figure>\n";
}

std::string figures_html(const std::vector<page_figure>& figures, const fixed_scales& scales) {
  if (figures.empty()) return "<p>None: gnuplot was not installed where this page was made.</p>\n";
  const auto both = [](double limit) { return "-" + number_text(limit) + " to " + number_text(limit); };
  std::string s =
      "<p>Colours mean the same in every report with these limits: correlations -1 to 1; bias × context in logits " +
      both(scales.bias) + ", in sd " + both(scales.bias_in_sd) +
      "; plasticity 0 to 1. A value beyond them has the colour of the end.</p>\n";
  for (const auto& f : figures)
    if (f.name != "profile") s += figure_html(f);
  return s;
}

report_content report_sections(const analysed& found, const report_settings& settings,
                               const forward_statistics& statistics) {
  page_printer result, summary;
  print_target(result, found.report, false);  // the first screen has it
  print_capture(summary, found);
  print_plasticity(summary, found.report);
  print_classes(summary, found.report, settings.thresholds);
  print_position(summary, found.report);
  print_statistics(summary, statistics);
  print_extremes(summary, found.report);
  return {.title = found.report.model,
          .result = result.sections(),
          .summary = summary.sections(),
          .overview = {},
          .figures = {},
          .heads = heads_html(found.report),
          .notes = notes_html(found, settings),
          .data = head_data(found)};
}

std::string report_page(const report_content& c) {
  const std::string title = html_text(c.title);
  // "model (type): 64 query heads in 8 layers, head size 32"; the model's name may hold colons, the rest does not.
  const std::string words = c.summary.empty() ? c.title : c.summary[0].heading;
  const std::size_t colon = std::min(words.rfind(": "), words.size());
  std::string s =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      // The page loads nothing; the policy stops a page that was tampered with.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>" +
      title + ": attention heads</title>\n<style>" + page_style() + "</style>\n</head>\n<body>\n<header>\n<h1>" +
      html_text(words.substr(0, colon)) + "</h1>\n";
  if (colon < words.size()) s += "<p>" + html_words(words.substr(colon + 2)) + "</p>\n";
  s += "<nav aria-label=\"Parts of the report\"><a href=\"#target\">Target</a> <a href=\"#summary\">Summary</a> "
       "<a href=\"#figures\">Figures</a> <a href=\"#heads\">Heads</a> <a href=\"#notes\">Notes</a></nav>\n"
       "</header>\n<main>\n";
  s += section_html("overview", "At a glance", c.overview);
  if (!c.result.empty()) s += section_html("target", c.result[0].heading, c.result[0].body + parts_html(c.result, 1));
  s += section_html("summary", "Summary", (c.summary.empty() ? "" : c.summary[0].body) + parts_html(c.summary, 1));
  s += section_html("figures", "Figures", c.figures);
  s += section_html("heads", "Heads", c.heads);
  s += section_html("notes", "Notes", c.notes);
  return s + "</main>\n<script id=\"head-data\" type=\"application/json\">" + c.data +
         "</script>\n<script>\n/*<![CDATA[*/\n" + page_script() + "/*]]>*/\n</script>\n</body>\n</html>\n";
}

std::string shell_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-./,:=+@%") == std::string::npos;
    std::string shown;
    for (const char c : word) shown += c == '\'' ? "'\\''" : std::string(1, c);
    line += (i > 0 ? " " : "") + (plain ? word : "'" + shown + "'");
  }
  return line;
}

}  // namespace qkgeom::examples
