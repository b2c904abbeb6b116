// SPDX-License-Identifier: MIT
// Figures over one axis: the profile with a trace per head, and the histogram.
#include <algorithm>
#include <cmath>
#include <utility>

#include "examples/common/figures/figure_style.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/stats/quantile.hpp"

namespace qkgeom::examples {
namespace {

constexpr double trace_opacity = 0.42;

bool shown(const line_figure& figure, double y) { return std::isfinite(y) && (!figure.log_y || y > 0); }

/// A polyline with gaps at missing values.
void add_polyline(style::datablock& data, const line_figure& figure, const std::vector<double>& y) {
  const auto& x = figure.x;
  require(x.size() == y.size(), "line figure: ", y.size(), " values for ", x.size(), " positions");
  bool open = false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (shown(figure, y[i]))
      data.row(x[i], y[i]);
    else if (open)
      data.gap();
    open = shown(figure, y[i]);
  }
  if (open) data.gap();
}

/// A filled area between two lines, with gaps where either is missing.
class area {
 public:
  area(const line_figure& figure, const std::string& name) : figure_(figure), data_(name) {}
  void row(std::size_t i, double low, double high) {
    if (shown(figure_, high) && std::isfinite(low))
      data_.row(figure_.x[i], figure_.log_y ? std::max(low, figure_.y_low) : low, high);
    else
      data_.gap();
  }
  /// Adds the area to the script and to `plot`, in this colour and opacity.
  void draw(plot_script& script, style::plot_list& plot, colour fill, double opacity) const {
    style::plot_block(script, plot, data_,
                      " using 1:2:3 with filledcurves lc " + style::rgb(fill, opacity) + " notitle");
  }

 private:
  const line_figure& figure_;
  style::datablock data_;
};

/// Areas that hold half and nine tenths of the traces.
void add_quantiles(const line_figure& figure, const line_figure::group& g, const std::string& number,
                   plot_script& script, style::plot_list& plot) {
  for (const auto& [share, opacity] : {std::pair{0.05, 0.1}, std::pair{0.25, 0.16}}) {
    area held(figure, "held" + std::to_string(static_cast<int>(100 * share)) + "of" + number);
    for (std::size_t i = 0; i < figure.x.size(); ++i) {
      std::vector<double> values;
      for (const auto& trace : g.traces) values.push_back(trace.at(i));
      held.row(i, quantile(values, share), quantile(values, 1 - share));
    }
    held.draw(script, plot, g.line, opacity);
  }
}

struct group_elements {
  style::plot_list bands, traces, means;
};

void add_group(const line_figure& figure, std::size_t index, plot_script& script, group_elements& plot) {
  const auto& g = figure.groups[index];
  const std::string number = std::to_string(index);
  style::datablock traces("traces" + number), mean("mean" + number);
  if (!g.mean.empty()) add_polyline(mean, figure, g.mean);
  if (!g.error.empty()) {
    require(g.error.size() == g.mean.size(), "line figure: ", g.error.size(), " errors for ", g.mean.size(), " means");
    area band(figure, "band" + number);
    for (std::size_t i = 0; i < g.mean.size(); ++i) band.row(i, g.mean[i] - g.error[i], g.mean[i] + g.error[i]);
    band.draw(script, plot.bands, g.line, 0.2);
  }
  if (g.traces.size() > line_figure::most_traces)
    add_quantiles(figure, g, number, script, plot.traces);
  else
    for (const auto& trace : g.traces) add_polyline(traces, figure, trace);
  style::plot_block(
      script, plot.traces, traces,
      " using 1:2 with linespoints pt 7 ps 0.18 lw 0.8 lc " + style::rgb(g.line, trace_opacity) + " notitle");
  if (mean.empty()) return;
  script.data += mean.str();
  if (g.dashed) {
    plot.means.add(mean.name() + " using 1:2 with linespoints pt 6 ps 0.5 lw 1.8 dt (8,5) lc " + style::rgb(g.line) +
                   " notitle");
    return;
  }
  plot.means.add(mean.name() + " using 1:2 with lines lw 5.5 lc rgb '#ffffff' notitle");
  plot.means.add(mean.name() + " using 1:2 with linespoints pt 7 ps 0.55 lw 2.8 lc " + style::rgb(g.line) + " notitle");
}

}  // namespace

void draw(const line_figure& figure, const std::filesystem::path& stem) {
  style::canvas c{.width = 860, .height = 520, .left = figure.log_y ? 90 : 73, .right = 245, .bottom = 65, .top = 78};
  const std::string key = style::legend(c, style::names_of(figure.groups), 2, 1.4);
  plot_script script{c.width, c.height, {}, {}};
  auto& s = script.commands;
  s = style::frame(figure.text, c) + style::open_axes();
  s += "set xrange [0:" + number_text(figure.x_end) + "]\nset yrange [" + number_text(figure.y_low) + ":" +
       number_text(figure.y_high) + "]\n";
  if (figure.log_y) s += "set logscale y\nset format y '%g'\n";
  s += style::token_tics("x", figure.x_end);
  s += key;
  group_elements elements;
  style::plot_list plot, legend;
  for (std::size_t i = 0; i < figure.groups.size(); ++i) {
    const auto& g = figure.groups[i];
    add_group(figure, i, script, elements);
    if (g.name.empty()) continue;
    const bool bold = !g.mean.empty();
    legend.add("keyentry with lines lw " +
               std::string(g.dashed ? "1.8"
                           : bold   ? "2.8"
                                    : "0.8") +
               " lc " + style::rgb(g.line, bold ? 1 : trace_opacity) + (g.dashed ? " dt (8,5)" : "") + " title " +
               quoted(style::shortened(g.name)));
  }
  plot.add(elements.traces);
  plot.add(elements.bands);
  plot.add(elements.means);
  plot.add(legend);
  style::finish(script, plot, stem);
}

std::vector<double> histogram_edges(const std::vector<double>& values) {
  std::vector<double> sorted;
  for (const double v : values)
    if (std::isfinite(v)) sorted.push_back(v);
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return {-1, 0, 1};
  const double last_rank = static_cast<double>(sorted.size() - 1);
  const auto quantile = [&](double share) { return sorted[static_cast<std::size_t>(share * last_rank)]; };
  const double low = std::min(0.0, sorted.front()), high = std::max(0.0, sorted.back());
  if (!(high > low)) return {-1, 0, 1};
  // Freedman and Diaconis' width, rounded down to a round number, within 12 to 60 bins.
  const double wished = 2 * (quantile(0.75) - quantile(0.25)) / std::cbrt(static_cast<double>(sorted.size()));
  const double most = std::clamp(wished, (high - low) / 24, (high - low) / 12);
  const double decade = std::pow(10, std::floor(std::log10(most)));
  const double width = decade * (5 * decade <= most ? 5 : 2 * decade <= most ? 2 : 1);
  std::vector<double> edges;
  const double first = std::floor(low / width), last = std::max(first + 1, std::floor(high / width) + 1);
  for (double i = first; i <= last; ++i) edges.push_back(i * width);
  return edges;
}

void draw(const histogram_figure& figure, const std::filesystem::path& stem) {
  const style::canvas c{.width = 720, .height = 480, .left = 65, .right = 29, .bottom = 67, .top = 106};
  plot_script script{c.width, c.height, {}, {}};
  auto& s = script.commands;
  std::vector<double> all;
  for (const auto& g : figure.groups) all.insert(all.end(), g.values.begin(), g.values.end());
  const auto edges = histogram_edges(all);
  s = style::frame(figure.text, c) + style::open_axes();
  s += "set grid noxtics\nset xrange [" + number_text(edges.front()) + ":" + number_text(edges.back()) + "]\n";
  s += "set key at graph 0, screen 0.86 left top horizontal Left reverse samplen 1 width 2 tc " +
       style::rgb(style::ink) + "\n";
  s += "set arrow from 0, graph 0 to 0, graph 1 nohead front lw 1.2 lc " + style::rgb(style::ink) + "\n";
  std::vector<double> base(edges.size() - 1);
  style::plot_list plot;
  for (std::size_t i = 0; i < figure.groups.size(); ++i) {
    const auto& g = figure.groups[i];
    std::vector<double> count(base.size());
    for (const double v : g.values)
      if (std::isfinite(v)) {
        const auto bin = std::upper_bound(edges.begin(), edges.end(), v) - edges.begin() - 1;
        ++count[std::clamp<std::ptrdiff_t>(bin, 0, static_cast<std::ptrdiff_t>(base.size()) - 1)];
      }
    style::datablock data("bars" + std::to_string(i));
    for (std::size_t b = 0; b < base.size(); ++b) {
      if (count[b] > 0)
        data.row(0.5 * (edges[b] + edges[b + 1]), base[b] + 0.5 * count[b], edges[b], edges[b + 1], base[b],
                 base[b] + count[b]);
      base[b] += count[b];
    }
    const std::string look = " fs solid 1 border rgb '#ffffff' lw 0.8 lc " + style::rgb(g.fill);
    style::plot_block(script, plot, data, " using 1:2:3:4:5:6 with boxxyerror" + look + " notitle");
    if (!g.name.empty()) plot.add("keyentry with boxes" + look + " title " + quoted(g.name));
  }
  const double most = *std::max_element(base.begin(), base.end());
  s += "set yrange [0:" + number_text(std::max(1.0, 1.05 * most)) + "]\n";
  if (most <= 10) s += "set ytics 1\n";
  style::finish(script, plot, stem);
}

}  // namespace qkgeom::examples
