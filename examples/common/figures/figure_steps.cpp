// SPDX-License-Identifier: MIT
// Figures over labelled steps: lines with error bars, and columns of shares.
#include <algorithm>
#include <cmath>

#include "examples/common/figures/figure_style.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {
namespace {

/// Frame, axes with the steps' labels, and the legend on the right; sets the script's size.
std::string step_frame(const figure_text& text, const std::vector<std::string>& steps,
                       const std::vector<std::string>& names, plot_script& script) {
  style::canvas c{.width = 880, .height = 540, .left = 84, .right = 238, .bottom = 113, .top = 81};
  constexpr double slope = 28 * 3.14159265358979 / 180;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int label = style::text_width(style::shortened(steps[i]));
    c.bottom_room(20 + static_cast<int>(std::sin(slope) * label));
    // Slanted labels reach to the right, below the legend.
    const double step = (c.width - c.left - c.right) / static_cast<double>(steps.size());
    const double over = std::cos(slope) * label - step * (static_cast<double>(steps.size() - i) - 0.5);
    c.right_room(static_cast<int>(over) + 10);
  }
  const std::string key = style::legend(c, names, 2, 1.4);
  script.width = c.width;
  script.height = c.height;
  std::string s = style::frame(text, c) + style::open_axes();
  s += "set xrange [-0.6:" + number_text(static_cast<double>(steps.size()) - 0.4) + "]\nset xtics rotate by -28 (";
  for (std::size_t i = 0; i < steps.size(); ++i)
    s += (i > 0 ? ", " : "") + quoted_tic(style::shortened(steps[i])) + " " + std::to_string(i);
  return s + ")\n" + key;
}

void check_length(const std::vector<double>& values, const std::vector<std::string>& steps) {
  require(values.size() == steps.size(), "figure: ", values.size(), " values for ", steps.size(), " steps");
}

void add_series(const step_figure& figure, std::size_t index, plot_script& script, style::plot_list& bars,
                style::plot_list& lines) {
  const auto& g = figure.lines[index];
  check_length(g.y, figure.steps);
  const std::string number = std::to_string(index);
  style::datablock line("line" + number), bar("bar" + number);
  // Shifts each line a little, so that error bars do not cover each other.
  const double aside =
      (figure.joined ? 0.03 : 0.12) * (static_cast<double>(index) - 0.5 * static_cast<double>(figure.lines.size() - 1));
  bool open = false;
  for (std::size_t i = 0; i < g.y.size(); ++i) {
    const bool drawn = std::isfinite(g.y[i]) && (!figure.log_y || g.y[i] > 0);
    const double x = static_cast<double>(i) + aside;
    if (drawn)
      line.row(x, g.y[i]);
    else if (open)
      line.gap();
    open = drawn;
    if (!drawn || i >= g.error.size() || !std::isfinite(g.error[i])) continue;
    // On a log axis a bar that would reach 0 ends at a tenth of the value.
    const double low = figure.log_y ? std::max(g.y[i] - g.error[i], 0.1 * g.y[i]) : g.y[i] - g.error[i];
    bar.row(x, low, g.y[i] + g.error[i] - low);
  }
  const std::string look = " lc " + style::rgb(g.line);
  style::plot_block(script, bars, bar, " using 1:2:(0):3 with vectors nohead lw 1.4" + look + " notitle");
  const std::string marks = figure.joined ? g.dashed ? "6 ps 0.6 lw 1.6 dt (8,5)" : "7 ps 0.6 lw 2.4" : "7 ps 0.9";
  style::plot_block(script, lines, line,
                    std::string(" using 1:2 with ") + (figure.joined ? "linespoints" : "points") + " pt " + marks +
                        look + " notitle");
}

}  // namespace

void draw(const step_figure& figure, const std::filesystem::path& stem) {
  plot_script script;
  auto& s = script.commands;
  s = step_frame(figure.text, figure.steps, style::names_of(figure.lines), script);
  style::plot_list bars, lines, plot;
  for (std::size_t i = 0; i < figure.lines.size(); ++i) add_series(figure, i, script, bars, lines);
  // gnuplot finds no range if no line has a value.
  const auto bound = [&](double y, const char* fallback) {
    return std::isfinite(y) ? number_text(y) : std::string(lines.empty() ? fallback : "*");
  };
  s += "set yrange [" + bound(figure.y_low, "0.1") + ":" + bound(figure.y_high, "1") + "]\n";
  if (figure.log_y) s += "set logscale y\nset format y '%g'\n";
  plot.add(bars);
  plot.add(lines);
  for (const auto& g : figure.lines)
    if (!g.name.empty())
      plot.add(std::string("keyentry with ") +
               (!figure.joined ? "points pt 7 ps 0.9"
                : g.dashed     ? "lines lw 1.6 dt (8,5)"
                               : "lines lw 2.4") +
               " lc " + style::rgb(g.line) + " title " + quoted(style::shortened(g.name)));
  style::finish(script, plot, stem);
}

void draw(const share_figure& figure, const std::filesystem::path& stem) {
  plot_script script;
  auto& s = script.commands;
  s = step_frame(figure.text, figure.steps, style::names_of(figure.parts), script) +
      "set yrange [0:1]\nset grid noxtics\nset key invert\n";
  std::vector<double> base(figure.steps.size());
  style::plot_list plot;
  for (std::size_t p = 0; p < figure.parts.size(); ++p) {
    const auto& part = figure.parts[p];
    check_length(part.share, figure.steps);
    style::datablock data("part" + std::to_string(p));
    for (std::size_t i = 0; i < base.size(); ++i) {
      if (!(part.share[i] > 0)) continue;
      const double x = static_cast<double>(i), top = base[i] + part.share[i];
      data.row(x, 0.5 * (base[i] + top), x - 0.36, x + 0.36, base[i], top);
      base[i] = top;
    }
    const std::string look = " fs solid 1 border rgb '#ffffff' lw 0.8 lc " + style::rgb(part.fill);
    style::plot_block(script, plot, data, " using 1:2:3:4:5:6 with boxxyerror" + look + " notitle");
    plot.add("keyentry with boxes" + look + " title " + quoted(style::shortened(part.name)));
  }
  style::finish(script, plot, stem);
}

}  // namespace qkgeom::examples
