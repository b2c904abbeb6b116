// SPDX-License-Identifier: MIT
// Figures whose marks are points: the scatter with thresholds, and the plane of a head.
#include <algorithm>
#include <cmath>
#include <limits>

#include "examples/common/figures/figure_style.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {
namespace {

std::string rectangle(const scatter_figure::region& r) {
  return "set object rectangle from " + number_text(r.left) + "," + number_text(r.bottom) + " to " +
         number_text(r.right) + "," + number_text(r.top) + " behind fc " + style::rgb(r.fill) +
         " fs transparent solid 0.10 noborder\n";
}

}  // namespace

void draw(const scatter_figure& figure, const std::filesystem::path& stem) {
  style::canvas c{.width = 770, .height = 600, .left = 73, .right = 249, .bottom = 69, .top = 83};
  const std::string key = style::legend(c, style::names_of(figure.points), 0.6, 1.35);
  plot_script script{c.width, c.height, {}, {}};
  auto& s = script.commands;
  s = style::frame(figure.text, c) + style::open_axes();
  const std::string limit = number_text(figure.limit);
  if (figure.square) {
    s += "set xrange [-" + limit + ":" + limit + "]\nset yrange [-" + limit + ":" + limit + "]\n";
    s += "set xtics 0.5\nset ytics 0.5\nset mxtics 5\nset mytics 5\n";
  } else {
    s += "set offsets graph 0.03, graph 0.03, graph 0.03, graph 0.03\n";
  }
  s += key;
  for (const auto& region : figure.regions) s += rectangle(region);
  for (const double t : figure.thresholds)
    for (const double value : {-t, t}) s += style::threshold_line(true, value) + style::threshold_line(false, value);

  style::plot_list plot;
  int label = 100;
  for (std::size_t i = 0; i < figure.points.size(); ++i) {
    const auto& series = figure.points[i];
    s += style::point_labels(series, label);
    require(series.x.size() == series.y.size(), "scatter figure: ", series.x.size(), " x for ", series.y.size(), " y");
    style::datablock data("points" + std::to_string(i));
    for (std::size_t j = 0; j < series.x.size(); ++j)
      if (std::isfinite(series.x[j]) && std::isfinite(series.y[j])) data.row(series.x[j], series.y[j]);
    const std::string look = style::points_with(series.shape, 0.8, style::rgb(series.fill, 0.8));
    style::plot_block(script, plot, data, " using 1:2" + look + " notitle");
    if (!series.name.empty()) plot.add("keyentry" + look + " title " + quoted(style::shortened(series.name)));
  }
  style::finish(script, plot, stem);
}

namespace {

struct extent {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void include(const std::vector<double>& values) {
    for (const double v : values)
      if (std::isfinite(v)) {
        low = std::min(low, v);
        high = std::max(high, v);
      }
  }
  std::string range() const {
    if (!(low <= high)) return "[-1:1]";
    const double margin = high > low ? 0.04 * (high - low) : 1.0;
    return std::string("[") + number_text(low - margin) + ":" + number_text(high + margin) + "]";
  }
};

/// A colour bar of positions in the right margin, from `top` downwards.
std::string ramp_bar(const plane_figure::cloud& cloud, double top, double context_length) {
  constexpr double left = 0.775, width = 0.16, height = 0.025;
  constexpr int steps = 32;
  std::string s = "set label " + quoted(cloud.name) + " at screen " + number_text(left) + ", screen " +
                  number_text(top + 0.03) + " left tc " + style::rgb(style::ink) + "\n";
  for (int i = 0; i < steps; ++i)
    s += "set object rectangle from screen " + number_text(left + width * i / steps) + ", screen " +
         number_text(top - height) + " to screen " +
         number_text(left + width * std::min<double>(i + 1.3, steps) / steps) + ", screen " + number_text(top) +
         " fc " + style::rgb(style::blend(cloud.ramp[0], cloud.ramp[1], (i + 0.5) / steps)) + " fs solid noborder\n";
  const auto tic = [&](double x, double tokens, const char* side) {
    return "set label " + quoted(style::token_label(tokens)) + " at screen " + number_text(x) + ", screen " +
           number_text(top - height - 0.025) + " " + side + " font ',10' tc " + style::rgb(style::faint_ink) + "\n";
  };
  return s + tic(left, 0, "left") + tic(left + width, context_length, "right");
}

/// Rows coloured by position, and the path of the means as a line with a large mark at its end.
void add_cloud(const plane_figure& figure, std::size_t index, plot_script& script, style::plot_list& rows,
               style::plot_list& means) {
  const auto& c = figure.clouds[index];
  require(c.x.size() == c.y.size() && c.x.size() == c.position.size(),
          "plane figure: x, y and position differ in length");
  require(c.mean_x.size() == c.mean_y.size(), "plane figure: mean_x and mean_y differ in length");
  const std::string number = std::to_string(index);
  style::datablock cloud("cloud" + number), way("way" + number), last("last" + number);
  for (std::size_t i = 0; i < c.x.size(); ++i)
    if (std::isfinite(c.x[i]) && std::isfinite(c.y[i]))
      cloud.row(c.x[i], c.y[i],
                static_cast<double>(style::blend(c.ramp[0], c.ramp[1], c.position[i] / figure.context_length)));
  std::size_t end = 0;
  for (std::size_t i = 0; i < c.mean_x.size(); ++i)
    if (std::isfinite(c.mean_x[i]) && std::isfinite(c.mean_y[i])) {
      way.row(c.mean_x[i], c.mean_y[i]);
      end = i;
    }
  style::plot_block(script, rows, cloud,
                    " using 1:2:3" + style::points_with(c.shape, 0.32, "rgb variable") + " notitle");
  if (way.empty()) return;
  last.row(c.mean_x[end], c.mean_y[end]);
  script.data += way.str() + last.str();
  means.add(way.name() + " using 1:2 with lines lw 5 lc rgb '#ffffff' notitle");
  means.add(way.name() + " using 1:2 with lines lw 2.5 lc " + style::rgb(c.ramp[1]) + " notitle");
  means.add(last.name() + " using 1:2" + style::points_with(c.shape, 1.7, style::rgb(0xffffff)) + " notitle");
  means.add(last.name() + " using 1:2" + style::points_with(c.shape, 1.2, style::rgb(c.ramp[1])) + " notitle");
}

}  // namespace

void draw(const plane_figure& figure, const std::filesystem::path& stem) {
  constexpr style::canvas size{.width = 780, .height = 560, .left = 78, .right = 195, .bottom = 67, .top = 84};
  plot_script script{size.width, size.height, {}, {}};
  auto& s = script.commands;
  s = style::frame(figure.text, size) + style::open_axes();
  extent x, y;
  style::plot_list rows, means;
  double top = 0.78;
  for (std::size_t i = 0; i < figure.clouds.size(); ++i, top -= 0.16) {
    x.include(figure.clouds[i].x);
    y.include(figure.clouds[i].y);
    add_cloud(figure, i, script, rows, means);
    s += ramp_bar(figure.clouds[i], top, figure.context_length);
  }
  s += "set xrange " + x.range() + "\nset yrange " + y.range() + "\n";
  for (const auto& [words, above] : {std::pair{"colour: position (tokens)", 0.045},
                                     {"line: mean along the", 0.01},
                                     {"context, mark: its end", -0.025}})
    s += "set label " + quoted(words) + " at screen 0.775, screen " + number_text(top + above) +
         " left font ',10' tc " + style::rgb(style::faint_ink) + "\n";
  for (const char* axis : {"x", "y"})
    s += std::string("set ") + axis + "zeroaxis lt 1 lw 1 lc " + style::rgb(style::axis) + "\n";
  rows.add("NaN notitle");
  rows.add(means);  // drawn last, over all clouds
  s += rows.str();
  write_plot(script, stem);
}

}  // namespace qkgeom::examples
