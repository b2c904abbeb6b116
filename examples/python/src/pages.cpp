// SPDX-License-Identifier: MIT
// The figures of the programs as data, which matplotlib draws, and the page of `qkgeom report`. Both come from the
// sources of the programs, examples/common and examples/report.
#include <memory>

#include "examples/common/figures/figure_style.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/report/page.hpp"
#include "python.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::python {

namespace {

namespace figures = qkgeom::examples;

void add(nb::dict&) {}
template <class Value, class... Rest>
void add(nb::dict& to, const char* name, const Value& value, const Rest&... rest) {
  to[name] = value;
  add(to, rest...);
}

/// A dictionary of names and their values, in turn.
template <class... Items>
nb::dict dict_of(const Items&... items) {
  nb::dict d;
  add(d, items...);
  return d;
}

/// The words of a figure, and its own items.
template <class... Items>
nb::dict figure_dict(const char* kind, const figures::figure_text& text, const Items&... items) {
  return dict_of("kind", kind, "title", text.title, "subtitle", text.subtitle, "x_label", text.x, "y_label", text.y,
                 items...);
}

std::string text_of(figures::colour c) { return figures::style::hex(c); }

/// matplotlib's name of the shape.
const char* text_of(figures::marker shape) {
  constexpr const char* names[] = {"o", "^", "s", "D"};
  return names[static_cast<int>(shape)];
}

/// A list of one(item) for each item.
template <class List, class One>
nb::list list_of(const List& items, const One& one) {
  nb::list all;
  for (const auto& item : items) all.append(one(item));
  return all;
}

nb::list colours_of(figures::colour_scale scale) {
  return list_of(figures::style::colours_of(scale), [](figures::colour c) { return text_of(c); });
}

nb::dict data_of(const figures::scatter_figure& f) {
  const auto points = list_of(f.points, [](const auto& s) {
    return dict_of("name", s.name, "colour", text_of(s.fill), "marker", text_of(s.shape), "x", s.x, "y", s.y);
  });
  const auto regions = list_of(
      f.regions, [](const auto& r) { return nb::make_tuple(r.left, r.bottom, r.right, r.top, text_of(r.fill)); });
  return figure_dict("scatter", f.text, "points", points, "regions", regions, "thresholds", f.thresholds, "limit",
                     f.limit);
}

nb::dict data_of(const figures::line_figure& f) {
  const auto groups = list_of(f.groups, [](const auto& g) {
    return dict_of("name", g.name, "colour", text_of(g.line), "traces", g.traces, "mean", g.mean, "error", g.error,
                   "dashed", g.dashed);
  });
  return figure_dict("lines", f.text, "x", f.x, "x_end", f.x_end, "y_low", f.y_low, "y_high", f.y_high, "log_y",
                     f.log_y, "most_traces", std::size_t{figures::line_figure::most_traces}, "groups", groups);
}

nb::dict data_of(const figures::step_figure& f) {
  const auto lines = list_of(f.lines, [](const auto& s) {
    return dict_of("name", s.name, "colour", text_of(s.line), "y", s.y, "error", s.error, "dashed", s.dashed);
  });
  return figure_dict("steps", f.text, "steps", f.steps, "y_low", f.y_low, "y_high", f.y_high, "log_y", f.log_y, "lines",
                     lines);
}

nb::dict data_of(const figures::histogram_figure& f) {
  std::vector<double> all;
  for (const auto& g : f.groups) all.insert(all.end(), g.values.begin(), g.values.end());
  const auto groups = list_of(
      f.groups, [](const auto& g) { return dict_of("name", g.name, "colour", text_of(g.fill), "values", g.values); });
  return figure_dict("histogram", f.text, "edges", figures::histogram_edges(all), "groups", groups);
}

nb::dict data_of(const figures::map_figure& f) {
  const auto panels = list_of(f.panels, [](const auto& p) { return nb::make_tuple(p.title, p.values); });
  return figure_dict("map", f.text, "rows", f.rows, "columns", f.columns, "panels", panels, "colours",
                     colours_of(f.scale), "diverging", f.scale == figures::colour_scale::diverging, "low", f.low,
                     "high", f.high, "scale_label", f.scale_label, "digits", f.digits);
}

nb::dict data_of(const figures::heatmap_figure& f) {
  return figure_dict("heatmap", f.text, "cell", f.cell, "width", f.width, "values", f.values, "colours",
                     colours_of(figures::colour_scale::sequential), "low", f.low, "high", f.high, "scale_label",
                     f.scale_label);
}

nb::dict data_of(const figures::plane_figure& f) {
  const auto clouds = list_of(f.clouds, [](const auto& c) {
    return dict_of("name", c.name, "ramp", nb::make_tuple(text_of(c.ramp[0]), text_of(c.ramp[1])), "marker",
                   text_of(c.shape), "x", c.x, "y", c.y, "position", c.position, "mean_x", c.mean_x, "mean_y",
                   c.mean_y);
  });
  return figure_dict("plane", f.text, "context_length", f.context_length, "clouds", clouds);
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
  // matplotlib's style sheet says the same as this attribute.
  const std::string style = " style=\"stroke-linejoin: round; stroke-linecap: butt\"";
  std::vector<figures::page_figure> all;
  for (const auto& [name, svg] : drawn) all.push_back({name, figures::inline_svg(svg, name + "-", style)});
  content.overview = figures::overview_html(report, all);
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
  m.def("token_ticks", &figures::style::token_ticks, nb::arg("end"), "Round numbers of tokens from 0 to `end`.");
  m.def("page", &page_of, nb::arg("captures"), nb::arg("report"), nb::arg("command"), nb::arg("covariance"),
        nb::arg("pairs"), nb::arg("seed"), nb::arg("figures"),
        "The page that `qkgeom report` writes, with these figures: (name, SVG file).");
}

}  // namespace qkgeom::python
