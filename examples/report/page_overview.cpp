// SPDX-License-Identifier: MIT
// The first screen of the page: the verdict, three numbers, the profile and a map of all heads; and the data from which
// the page's script draws a head.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "examples/common/figures/figure_style.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/terminal.hpp"
#include "examples/report/page.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom::examples {
namespace {

using nlohmann::json;

/// Rounds to four significant digits; null if x is not finite.
json rounded(double x) {
  if (!std::isfinite(x)) return nullptr;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", x);
  return std::strtod(text, nullptr);
}
json rounded(const std::vector<double>& all) {
  json list = json::array();
  for (const double x : all) list.push_back(rounded(x));
  return list;
}

/// A colour between those of the sequential scale, for x in [0, 1]; grey if x is not finite.
colour colour_of(double x) {
  if (!std::isfinite(x)) return palette::grey;
  const auto stops = style::colours_of(colour_scale::sequential);
  const double at = std::clamp(x, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  return style::blend(stops[i], stops[i + 1], at - static_cast<double>(i));
}

/// Plasticity under each query model by the middle of its query bucket: [x, value, standard error].
json profiles_of(const head_report& h) {
  json all = json::object();
  const auto add = [&](const plasticity_profile_result& profile) {
    json& line = all[std::string(profile.covariance)] = json::array();
    for (const auto& b : profile.buckets)
      if (std::isfinite(b.plasticity))
        line.push_back({rounded(b.middle()), rounded(b.plasticity), rounded(b.standard_error)});
  };
  for (const auto& p : h.profiles) add(p);
  if (h.empirical) add(*h.empirical);
  return all;
}

/// The headline heatmap in at most 32 cells a side: {cell: tokens, rows of key distance: means}.
json heatmap_of(const plasticity_heatmap& map) {
  const index_t step = std::max<index_t>(1, (map.width + 31) / 32), width = (map.width + step - 1) / step;
  std::vector<double> sum(width * width), weight(width * width);
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j) {
      sum[i / step * width + j / step] += map.sum[i * map.width + j];
      weight[i / step * width + j / step] += map.weight[i * map.width + j];
    }
  json rows = json::array();
  for (index_t i = 0; i < width; ++i) {
    std::vector<double> means;
    for (index_t j = 0; j < width; ++j) means.push_back(sum[i * width + j] / weight[i * width + j]);
    while (!means.empty() && !std::isfinite(means.back())) means.pop_back();
    rows.push_back(rounded(means));
  }
  return {{"cell", map.cell * step}, {"rows", rows}};
}

/// Some queries and keys in the plane of the drift axis a and the separation axis b.
json plane_of(const plane_figure& plane) {
  json sides = json::array();
  for (const auto& cloud : plane.clouds)
    sides.push_back({{"x", rounded(cloud.x)}, {"y", rounded(cloud.y)}, {"t", rounded(cloud.position)}});
  return sides;
}

/// The map of heads: a link a head to its row of the table, coloured by plasticity.
std::string map_html(const model_report& report) {
  std::string s =
      "<figure class=\"map\">\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"map-caption\">"
      "<table id=\"head-map\"><tbody>\n";
  std::optional<index_t> layer;
  for (const auto& h : report.heads) {
    if (layer != h.layer)
      s += (layer ? "</tr>\n" : "") + std::string("<tr><th scope=\"row\">") + std::to_string(h.layer) + "</th>";
    layer = h.layer;
    const double ap = h.summaries.empty() ? NAN : h.summaries[0].overall.value;
    s += "<td><a href=\"#head-" + short_name(h) + "\" style=\"background:" + style::hex(colour_of(ap)) + "\" title=\"" +
         head_name(h) + ": AP " + fixed(ap, 3) + "\" aria-label=\"" + head_name(h) + ": plasticity " + fixed(ap, 3) +
         "\"></a></td>";
  }
  return s +
         "</tr>\n</tbody></table></div>\n<figcaption id=\"map-caption\">Plasticity of every head: a row a layer, from "
         "0 "
         "(violet) to 1 (yellow). Choose one to look at it.</figcaption>\n</figure>\n";
}

}  // namespace

std::string overview_html(const model_report& report, const std::vector<page_figure>& figures) {
  if (report.heads.empty() || report.heads[0].profiles.empty()) return {};
  const auto all = summarize_model(report)[0];
  const auto number = [](const std::string& value, const std::string& words) {
    return "<div><dd>" + html_text(value) + "</dd><dt>" + html_text(words) + "</dt></div>\n";
  };
  const auto dominated = std::count_if(report.heads.begin(), report.heads.end(), [](const head_report& h) {
    return h.pca.head_class == head_class::position_dominated;
  });
  std::string s =
      "<p class=\"verdict\">" + html_text(target_statement(all.drop, report.context_length)) +
      "</p>\n<dl class=\"numbers\">\n" + number(estimate_text(all.overall), "attention plasticity, mean over heads") +
      number(estimate_text(all.drop), "AP_drop, from the first to the last fifth of the context") +
      number(std::to_string(dominated) + " of " + std::to_string(report.heads.size()), "heads are position-dominated") +
      "</dl>\n<div class=\"pictures\">\n";
  for (const auto& f : figures)
    if (f.name == "profile") s += figure_html(f);
  return s + map_html(report) + "</div>\n";
}

std::string head_data(const analysed& a) {
  json heads = json::array();
  const bool rows = has_rows(*a.source);
  std::optional<captured_layer> layer;
  index_t read = -1;
  for (const auto& h : a.report.heads) {
    json head{{"name", short_name(h)}, {"layer", h.layer}, {"head", h.q_head}, {"profiles", profiles_of(h)}};
    if (!h.profiles.empty() && h.profiles[0].heatmap.width > 0) head["heatmap"] = heatmap_of(h.profiles[0].heatmap);
    if (rows) {
      if (read != h.layer) layer.emplace(a.rows(read = h.layer));
      head["plane"] = plane_of(head_plane(a.report, h, *layer, 80));
    }
    heads.push_back(std::move(head));
  }
  json colours = json::array();
  for (const colour c : style::colours_of(colour_scale::sequential)) colours.push_back(style::hex(c));
  return json{{"context", a.report.context_length}, {"colours", colours}, {"heads", heads}}.dump();
}

}  // namespace qkgeom::examples
