// SPDX-License-Identifier: MIT
// The report's table of heads.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "examples/common/figures/gnuplot.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/report/page.hpp"

namespace qkgeom::examples {
namespace {

struct cell {
  std::string text;     ///< plain
  double value = NAN;   ///< sort key
  double error = NAN;   ///< standard error, shown after the text
  std::string order{};  ///< sort key of words
};

struct head_table_column {
  std::string name, unit;  ///< the unit stands below the name
  std::function<cell(const head_report&)> cell_of;
};

cell words(const std::string& text) { return {text, NAN, NAN, text}; }
cell number(double value, int digits) { return {fixed(value, digits), value}; }
cell size_of(double value) { return {signed_significant(value), value}; }
cell mean(const estimate& e) { return {fixed(e.value, 3), e.value, e.error}; }

std::vector<head_table_column> columns_of(const model_report& report) {
  const auto window = [length = report.context_length](const head_report& h) {
    return h.window ? cell{grouped(*h.window), static_cast<double>(*h.window)}
                    : cell{"all", static_cast<double>(length)};
  };
  const auto observed = [](const head_report& h) {
    return h.empirical_unbiased ? number(h.empirical_unbiased->overall.value, 3) : cell{"-"};
  };
  std::vector<head_table_column> columns{
      {"Layers", "", [](const head_report& h) { return words(h.rope ? "RoPE" : "NoPE"); }},
      {"Class", "", [](const head_report& h) { return words(class_words(h.pca.head_class)); }},
      {"Window", "tokens", window},
      {"AP", "overall", [](const head_report& h) { return mean(h.summaries[0].overall); }},
      {"AP_drop", "", [](const head_report& h) { return mean(h.summaries[0].drop); }},
      {"AP", "first 20 %", [](const head_report& h) { return number(h.summaries[0].first20.value, 3); }},
      {"AP", "last 20 %", [](const head_report& h) { return number(h.summaries[0].last20.value, 3); }},
      {"AP", "observed", observed},
      {"Bias", "logits × context", [](const head_report& h) { return size_of(h.rotation.bias.context_logits); }},
      {"Bias", "in sd", [](const head_report& h) { return size_of(h.rotation.bias.context_in_sd); }},
      {"r_q", "axis a", [](const head_report& h) { return number(h.rotation.q.r, 2); }},
      {"r_k", "axis a", [](const head_report& h) { return number(h.rotation.k.r, 2); }},
      {"Plane", "variance", [](const head_report& h) { return number(h.rotation.plane_var_fraction, 2); }},
      {"r_q", "PC0", [](const head_report& h) { return number(h.pca.r_q[0], 2); }},
      {"r_k", "PC0", [](const head_report& h) { return number(h.pca.r_k[0], 2); }},
      {"PC0", "share", [](const head_report& h) { return number(h.pca.explained_variance[0], 2); }},
      {"Key", "head", [](const head_report& h) { return number(static_cast<double>(h.k_head), 0); }}};
  const auto none = [&](const auto& has) { return std::none_of(report.heads.begin(), report.heads.end(), has); };
  const bool no_window = none([](const head_report& h) { return h.window.has_value(); });
  const bool none_observed = none([](const head_report& h) { return h.empirical_unbiased.has_value(); });
  std::erase_if(columns, [&](const auto& c) {
    return (no_window && c.name == "Window") || (none_observed && c.unit == "observed");
  });
  return columns;
}

std::string key_of(const cell& c) {
  if (!c.order.empty()) return " class=\"words\" data-value=\"" + html_text(c.order) + "\"";
  return std::isfinite(c.value) ? " data-value=\"" + number_text(c.value) + "\"" : "";
}

std::string option_html(const std::string& value, const std::string& words) {
  return "<option value=\"" + html_text(value) + "\">" + html_text(words) + "</option>";
}

std::string choice(const std::string& name, const std::string& label, const std::string& all,
                   const std::vector<std::pair<std::string, std::string>>& values) {
  std::string s = "<label>" + label + " <select name=\"" + name + "\">" + option_html("", all);
  for (const auto& [value, words] : values) s += option_html(value, words);
  return s + "</select></label>\n";
}

/// The choices of the filters: layers, kinds of layers, classes.
std::string controls(const model_report& report) {
  std::set<index_t> layers;
  std::set<bool> kinds;
  std::set<int> classes;
  for (const auto& h : report.heads) {
    layers.insert(h.layer);
    kinds.insert(h.rope);
    classes.insert(static_cast<int>(h.pca.head_class));
  }
  std::vector<std::pair<std::string, std::string>> of_layer, of_class;
  for (const index_t l : layers) of_layer.emplace_back(std::to_string(l), std::to_string(l));
  for (const head_class c : all_head_classes)
    if (classes.count(static_cast<int>(c)) > 0) of_class.emplace_back(class_words(c), class_words(c));
  std::string s =
      "<form id=\"head-filter\" hidden=\"hidden\">\n"
      "<label>Text <input type=\"search\" name=\"text\" autocomplete=\"off\" placeholder=\"3.2, mixed, "
      "...\"/></label>\n";
  s += choice("layer", "Layer", "all", of_layer);
  s += choice("class", "Class", "all", of_class);
  if (kinds.size() == 2) s += choice("kind", "Position", "RoPE and NoPE", {{"RoPE", "RoPE"}, {"NoPE", "NoPE"}});
  return s + "<button type=\"reset\">Clear</button>\n<output id=\"head-count\" role=\"status\"></output>\n</form>\n";
}

/// The text that the filter searches.
std::string words_of_head(const head_report& h) {
  const std::string layer = std::to_string(h.layer), head = std::to_string(h.q_head);
  return short_name(h) + " layer " + layer + " head " + head + " key head " + std::to_string(h.k_head) + " " +
         class_words(h.pca.head_class) + (h.rope ? " RoPE" : " NoPE");
}

}  // namespace

std::string heads_html(const model_report& report) {
  if (report.heads.empty()) return {};
  const auto columns = columns_of(report);
  std::string s =
      "<p id=\"head-words\">A row a query head, named LAYER.HEAD; ± is one standard error over documents. AP under "
      "the " +
      html_text(report.heads[0].profiles[0].covariance) +
      " query model. All columns, and more, are in heads.csv.</p>\n" + controls(report) +
      "<div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Table of heads\">\n"
      "<table id=\"head-table\" aria-describedby=\"head-words\">\n<thead>\n<tr>";
  const auto head = [&](const std::string& name, const std::string& unit, bool left) {
    s += std::string("<th scope=\"col\"") + (left ? " class=\"words\"" : "") + "><span class=\"name\">" +
         html_text(name) + "</span>" + (unit.empty() ? "" : " <span class=\"unit\">" + html_text(unit) + "</span>") +
         "</th>";
  };
  head("Head", "", true);
  for (const auto& c : columns) head(c.name, c.unit, c.name == "Layers" || c.name == "Class");
  s += "</tr>\n</thead>\n<tbody>\n";
  std::size_t place = 0;
  for (const auto& h : report.heads) {
    const std::string name = short_name(h);
    s += "<tr id=\"head-" + name + "\" data-layer=\"" + std::to_string(h.layer) + "\" data-class=\"" +
         class_words(h.pca.head_class) + "\" data-kind=\"" + (h.rope ? "RoPE" : "NoPE") + "\" data-text=\"" +
         words_of_head(h) + "\"><th scope=\"row\" class=\"words\" data-value=\"" + std::to_string(place++) +
         "\"><a href=\"#head-" + name + "\">" + name + "</a></th>";
    for (const auto& c : columns) {
      const cell v = c.cell_of(h);
      s += "<td" + key_of(v) + ">" + html_text(v.text);
      if (std::isfinite(v.error))
        s += " <span class=\"error\">± " + fixed(v.error, v.error < 0.0005 && v.error > 0 ? 4 : 3) + "</span>";
      s += "</td>";
    }
    s += "</tr>\n";
  }
  return s + "</tbody>\n</table>\n</div>\n";
}

}  // namespace qkgeom::examples
