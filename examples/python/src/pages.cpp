// SPDX-License-Identifier: MIT
// The figures of the programs as data, which matplotlib draws, and the page of `report`. Both come from the sources of
// the programs, examples/common and examples/report.
#include <memory>

#include "examples/common/figures/figure_style.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/report/page.hpp"
#include "options.hpp"
#include "python.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::python {

namespace {

namespace figures = qkgeom::examples;

nb::dict of_kind(const char* kind, const figures::figure_text& text) {
  nb::dict d;
  d["kind"] = kind;
  d["title"] = text.title;
  d["subtitle"] = text.subtitle;
  d["x_label"] = text.x;
  d["y_label"] = text.y;
  return d;
}

std::string colour_text(figures::colour c) {
  char text[8];
  std::snprintf(text, sizeof text, "#%06x", c);
  return text;
}

const char* marker_text(figures::marker shape) {
  switch (shape) {
    case figures::marker::circle:
      return "o";
    case figures::marker::triangle:
      return "^";
    case figures::marker::square:
      return "s";
    case figures::marker::diamond:
      return "D";
  }
  return "o";
}

/// A list of what `one(item)` gives for each item.
template <class List, class One>
nb::list list_of(const List& items, const One& one) {
  nb::list all;
  for (const auto& item : items) all.append(one(item));
  return all;
}

nb::dict data_of(const figures::scatter_figure& f) {
  auto d = of_kind("scatter", f.text);
  d["points"] = list_of(f.points, [](const auto& s) {
    nb::dict one;
    one["name"] = s.name;
    one["colour"] = colour_text(s.fill);
    one["marker"] = marker_text(s.shape);
    one["x"] = s.x;
    one["y"] = s.y;
    return one;
  });
  d["regions"] = list_of(
      f.regions, [](const auto& r) { return nb::make_tuple(r.left, r.bottom, r.right, r.top, colour_text(r.fill)); });
  d["thresholds"] = f.thresholds;
  d["limit"] = f.limit;
  return d;
}

nb::dict data_of(const figures::line_figure& f) {
  auto d = of_kind("lines", f.text);
  d["x"] = f.x;
  d["x_end"] = f.x_end;
  d["y_low"] = f.y_low;
  d["y_high"] = f.y_high;
  d["log_y"] = f.log_y;
  d["most_traces"] = figures::line_figure::most_traces;
  d["groups"] = list_of(f.groups, [](const auto& g) {
    nb::dict one;
    one["name"] = g.name;
    one["colour"] = colour_text(g.line);
    one["traces"] = g.traces;
    one["mean"] = g.mean;
    one["error"] = g.error;
    one["dashed"] = g.dashed;
    return one;
  });
  return d;
}

nb::dict data_of(const figures::step_figure& f) {
  auto d = of_kind("steps", f.text);
  d["steps"] = f.steps;
  d["y_low"] = f.y_low;
  d["y_high"] = f.y_high;
  d["log_y"] = f.log_y;
  d["lines"] = list_of(f.lines, [](const auto& s) {
    nb::dict one;
    one["name"] = s.name;
    one["colour"] = colour_text(s.line);
    one["y"] = s.y;
    one["error"] = s.error;
    one["dashed"] = s.dashed;
    return one;
  });
  return d;
}

nb::dict data_of(const figures::histogram_figure& f) {
  auto d = of_kind("histogram", f.text);
  std::vector<double> all;
  for (const auto& g : f.groups) all.insert(all.end(), g.values.begin(), g.values.end());
  d["edges"] = figures::histogram_edges(all);
  d["groups"] = list_of(f.groups, [](const auto& g) {
    nb::dict one;
    one["name"] = g.name;
    one["colour"] = colour_text(g.fill);
    one["values"] = g.values;
    return one;
  });
  return d;
}

const char* scale_text(figures::colour_scale scale) {
  return scale == figures::colour_scale::diverging ? "diverging" : "sequential";
}

nb::dict data_of(const figures::map_figure& f) {
  auto d = of_kind("map", f.text);
  d["rows"] = f.rows;
  d["columns"] = f.columns;
  d["panels"] = list_of(f.panels, [](const auto& p) { return nb::make_tuple(p.title, p.values); });
  d["scale"] = scale_text(f.scale);
  d["low"] = f.low;
  d["high"] = f.high;
  d["scale_label"] = f.scale_label;
  d["digits"] = f.digits;
  return d;
}

nb::dict data_of(const figures::heatmap_figure& f) {
  auto d = of_kind("heatmap", f.text);
  d["cell"] = f.cell;
  d["width"] = f.width;
  d["values"] = f.values;
  d["low"] = f.low;
  d["high"] = f.high;
  d["scale_label"] = f.scale_label;
  return d;
}

nb::dict data_of(const figures::plane_figure& f) {
  auto d = of_kind("plane", f.text);
  d["context_length"] = f.context_length;
  d["clouds"] = list_of(f.clouds, [](const auto& c) {
    nb::dict one;
    one["name"] = c.name;
    one["ramp"] = nb::make_tuple(colour_text(c.ramp[0]), colour_text(c.ramp[1]));
    one["marker"] = marker_text(c.shape);
    one["x"] = c.x;
    one["y"] = c.y;
    one["position"] = c.position;
    one["mean_x"] = c.mean_x;
    one["mean_y"] = c.mean_y;
    return one;
  });
  return d;
}

/// The data of one figure, by the name of the file that the programs write.
nb::dict figure_of(const model_report& report, const std::string& name) {
  require(!report.heads.empty(), "the report has no heads to draw");
  const figures::fixed_scales scales;
  if (name == "qk_scatter") return data_of(figures::class_scatter(report, class_thresholds{}));
  if (name == "qk_map") return data_of(figures::correlation_map(report));
  if (name == "bias_histogram") return data_of(figures::bias_histogram(report));
  if (name == "bias_map") return data_of(figures::bias_map(report));
  if (name == "bias_in_sd_map") return data_of(figures::bias_in_sd_map(report, scales.bias_in_sd));
  if (name == "profile") return data_of(figures::profile_figure(report));
  if (name == "heatmap") return data_of(figures::mean_heatmap(report));
  if (name == "plasticity_map") return data_of(figures::plasticity_map(report));
  fail("no figure has the name ", name);
}

nb::dict plane_of(const capture_set& source, const model_report& report, index_t layer, index_t head) {
  for (const auto& h : report.heads)
    if (h.layer == layer && h.q_head == head) return data_of(figures::head_plane(report, h, source.read_layer(layer)));
  fail("head: layer ", layer, " head ", head, " is not in this report");
}

/// A captures' set and its report as the programs hold them; `source` must outlive the result.
figures::analysed analysed_of(const capture_set& source, const model_report& report) {
  return {std::shared_ptr<const capture_set>(std::shared_ptr<void>{}, &source), report};
}

/// Figures of the softmax and of the loss, as far as the captures hold them.
nb::list statistics_figures(const capture_set& source, const model_report& report) {
  const auto found = figures::statistics_of(analysed_of(source, report));
  nb::list all;
  const auto add = [&](const char* name, const auto& figure) { all.append(nb::make_tuple(name, data_of(figure))); };
  if (found.softmax) {
    add("softmax_first", figures::sink_figure(report.model, *found.softmax));
    add("softmax_entropy", figures::entropy_figure(report.model, *found.softmax));
    add("softmax_distance", figures::distance_figure(report.model, *found.softmax));
  }
  if (found.loss) add("loss", figures::loss_figure(report.model, *found.loss));
  return all;
}

std::string page_of(const capture_set& source, const model_report& report, const std::string& command,
                    const std::vector<std::string>& covariance, const std::string& pairs, std::uint64_t seed,
                    const std::vector<std::pair<std::string, std::string>>& drawn) {
  require(!report.heads.empty(), "the report has no heads to draw");
  const nb::gil_scoped_release released;
  const auto found = analysed_of(source, report);
  figures::report_settings settings{.command = command, .version = QKGEOM_VERSION};
  settings.choice.covariance = covariance;
  settings.choice.pairs = pairs;
  settings.choice.seed = seed;
  auto content = figures::report_sections(found, settings, figures::statistics_of(found));
  std::vector<figures::page_figure> all;
  for (const auto& [name, element] : drawn) all.push_back({name, element});
  content.figures = figures::figures_html(all, settings.scales);
  return figures::report_page(content);
}

}  // namespace

void bind_pages(nb::module_& m) {
  m.def("figure", &figure_of, nb::arg("report"), nb::arg("name"),
        nb::sig("def figure(report: Report, name: str) -> dict[str, typing.Any]"),
        "Data and words of a figure over the heads of a report, by its name in docs/formats.md.");
  m.def("plane", &plane_of, nb::arg("captures"), nb::arg("report"), nb::arg("layer"), nb::arg("head"),
        nb::sig("def plane(captures: CaptureSet, report: Report, layer: int, head: int) -> dict[str, typing.Any]"),
        "Data and words of the figure of a head's {a, b} plane (4.3.2).");
  m.def(
      "drawn_heads",
      [](const model_report& report) {
        std::vector<std::pair<index_t, index_t>> heads;
        for (const auto* h : figures::heads_to_draw(report, {})) heads.emplace_back(h->layer, h->q_head);
        return heads;
      },
      nb::arg("report"), "(layer, head) of the heads whose planes the programs draw.");
  m.def("statistics_figures", &statistics_figures, nb::arg("captures"), nb::arg("report"),
        nb::sig("def statistics_figures(captures: CaptureSet, report: Report) "
                "-> list[tuple[str, dict[str, typing.Any]]]"),
        "Name and data of the figures of softmax and loss, as far as the captures hold these.");
  m.def("token_label", &figures::style::token_label, nb::arg("tokens"), "4096 as 4K.");
  m.def("page", &page_of, nb::arg("captures"), nb::arg("report"), nb::arg("command"), nb::arg("covariance"),
        nb::arg("pairs"), nb::arg("seed"), nb::arg("figures"),
        "The page that the program `report` writes, with these figures: (name, svg element).");
}

}  // namespace qkgeom::python
