// SPDX-License-Identifier: MIT
// Figures whose marks are cells: maps of layers and heads, and the heatmap over two distances.
#include <algorithm>
#include <cmath>

#include "examples/common/figures/figure_style.hpp"
#include "examples/common/table.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {
namespace {

/// Whether white text reads better than black on the colour of `share` of the scale.
bool wants_white_text(colour_scale scale, double share) {
  return scale == colour_scale::diverging ? std::abs(share - 0.5) > 0.28 : share < 0.5;
}

std::string tics_of(const char* axis_name, const std::vector<std::string>& labels, std::size_t max_tics) {
  const std::size_t step = std::max<std::size_t>(1, (labels.size() + max_tics - 1) / max_tics);
  std::string s = std::string("set ") + axis_name + "tics scale 0 nomirror (";
  for (std::size_t i = 0; i < labels.size(); i += step)
    s += (i > 0 ? ", " : "") + quoted_tic(style::shortened(labels[i])) + " " + std::to_string(i);
  return s + ")\n";
}

struct panel_data {
  style::datablock cells, nulls, dark_numbers, light_numbers;

  explicit panel_data(const std::string& n)
      : cells("cells" + n), nulls("nulls" + n), dark_numbers("dark" + n), light_numbers("light" + n) {}
};

panel_data data_of(const map_figure& figure, std::size_t index) {
  const auto& values = figure.panels[index].values;
  const std::size_t rows = figure.rows.size(), columns = figure.columns.size();
  require(values.size() == rows * columns, "map figure: ", values.size(), " values for ", rows, " x ", columns,
          " cells");
  panel_data data(std::to_string(index));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i % columns), y = static_cast<double>(i / columns), v = values[i];
    if (!std::isfinite(v)) {
      data.nulls.row(x, y);
      continue;
    }
    data.cells.row(x, y, v);
    const double share = (v - figure.low) / (figure.high - figure.low);
    auto& numbers = wants_white_text(figure.scale, share) ? data.light_numbers : data.dark_numbers;
    numbers.row(x, y, fixed(v, figure.digits));
  }
  return data;
}

/// `border`: a white line round each cell, which would cover very small ones.
void add_boxes(plot_script& script, style::plot_list& plot, const style::datablock& data, const std::string& colour,
               bool border) {
  style::plot_block(script, plot, data,
                    std::string(" using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5)") + (colour == "palette" ? ":3" : "") +
                        " with boxxyerror fs solid 1 " + (border ? "border rgb '#ffffff' lw 1" : "noborder") + " lc " +
                        colour + " notitle");
}

}  // namespace

void draw(const map_figure& figure, const std::filesystem::path& stem) {
  require(!figure.rows.empty() && !figure.columns.empty() && !figure.panels.empty(), "map figure: no cells");
  require(figure.high > figure.low, "map figure: the scale must ascend");
  const auto columns = static_cast<int>(figure.columns.size()), rows = static_cast<int>(figure.rows.size());
  const auto panels = static_cast<int>(figure.panels.size());
  // Pixels of a cell: room for a number in small models, one page for large ones, less than 8 for hundreds of heads.
  // Few rows are high, so that the colour bar beside them has room.
  const auto least = [](int cells) { return std::clamp(4096 / cells, 1, 8); };
  const int wide = std::clamp(1000 / (columns * panels), least(columns * panels), panels > 1 ? 46 : 58),
            high = std::max(std::clamp(640 / rows, least(rows), 32), 110 / rows);
  const bool numbers = wide >= 34 && high >= 20;
  constexpr int between = 26, right = 96, bottom = 62, top = 104;
  int left = 86;
  for (const auto& row : figure.rows) left = std::max(left, 14 + style::text_width(style::shortened(row)));
  plot_script script{
      left + panels * columns * wide + (panels - 1) * between + right, bottom + rows * high + top, {}, {}};
  script.width = std::max(script.width, 560);
  const auto at_x = [&](int pixels) { return static_cast<double>(pixels) / script.width; };
  const auto at_y = [&](int pixels) { return static_cast<double>(pixels) / script.height; };

  auto& s = script.commands;
  s = "set multiplot\n" + style::palette_of(figure.scale);
  s += "set cbrange [" + number_text(figure.low) + ":" + number_text(figure.high) + "]\nset border 0\n";
  for (int p = 0; p < panels; ++p) {
    const int x0 = left + p * (columns * wide + between), x1 = x0 + columns * wide;
    figure_text text{p == 0 ? figure.text.title : "", p == 0 ? figure.text.subtitle : "", figure.text.x,
                     p == 0 ? figure.text.y : ""};
    s += style::frame(text, {.width = script.width,
                             .height = script.height,
                             .left = x0,
                             .right = script.width - x1,
                             .bottom = bottom,
                             .top = top});
    s += "set label 3 " + quoted(figure.panels[p].title) + " at graph 0, screen " +
         number_text(at_y(bottom + rows * high + 16)) + " left tc " + style::rgb(style::ink) + "\n";
    s += "set xrange [-0.5:" + std::to_string(columns) + "-0.5]\nset yrange [" + std::to_string(rows) + "-0.5:-0.5]\n";
    s += tics_of("x", figure.columns, std::max(4, columns * wide / 26));
    s += p == 0 ? tics_of("y", figure.rows, std::max(4, rows * high / 14)) : "set format y ''\nunset ytics\n";
    if (p == panels - 1)
      s += "set colorbox user origin screen " + number_text(at_x(x1 + 16)) + ", screen " + number_text(at_y(bottom)) +
           " size screen " + number_text(at_x(14)) + ", screen " + number_text(at_y(rows * high)) +
           " noborder\nset cblabel " + quoted(figure.scale_label) + " offset 1,0 tc " + style::rgb(style::ink) +
           "\nset cbtics scale 0 nomirror textcolor " + style::rgb(style::ink) + "\n";
    else
      s += "unset colorbox\n";
    const auto data = data_of(figure, p);
    style::plot_list plot;
    const bool border = std::min(wide, high) >= 6;
    add_boxes(script, plot, data.cells, "palette", border);
    add_boxes(script, plot, data.nulls, style::rgb(style::null_cell), border);
    if (numbers)
      for (const auto* block : {&data.dark_numbers, &data.light_numbers})
        style::plot_block(script, plot, *block,
                          " using 1:2:3 with labels font ',11' tc " +
                              style::rgb(block == &data.light_numbers ? 0xffffff : style::ink) + " notitle");
    plot.add("NaN notitle");
    s += plot.str();
  }
  s += "unset multiplot\n";
  write_plot(script, stem);
}

void draw(const heatmap_figure& figure, const std::filesystem::path& stem) {
  require(figure.values.size() == figure.width * figure.width, "heatmap figure: ", figure.values.size(), " values for ",
          figure.width, " x ", figure.width, " cells");
  constexpr style::canvas c{.width = 680, .height = 560, .left = 78, .right = 136, .bottom = 70, .top = 84};
  plot_script script{c.width, c.height, {}, {}};
  auto& s = script.commands;
  s = style::frame(figure.text, c) + style::open_axes();
  const double end = figure.cell * static_cast<double>(figure.width);
  const std::string range = " [0:" + number_text(end > 0 ? end : 1) + "]\n";
  s += "set xrange" + range + "set yrange" + range + style::token_tics("x", end) + style::token_tics("y", end);
  s += style::palette_of(colour_scale::sequential) + "set cbrange [" + number_text(figure.low) + ":" +
       number_text(figure.high) + "]\n";
  s += "set colorbox user origin screen 0.825, graph 0 size screen 0.022, graph 1 noborder\nset cbtics scale 0 "
       "nomirror\nset cblabel " +
       quoted(figure.scale_label) + " offset 1,0 tc " + style::rgb(style::ink) + "\n";
  style::datablock cells("cells");
  for (std::size_t k = 0; k < figure.width; ++k)
    for (std::size_t q = 0; q < figure.width; ++q)
      if (const double v = figure.values[k * figure.width + q]; std::isfinite(v))
        cells.row(figure.cell * (static_cast<double>(k) + 0.5), figure.cell * (static_cast<double>(q) + 0.5), v);
  style::plot_list plot;
  const std::string half = number_text(0.5 * figure.cell);
  // A border in the cell's colour hides the hairlines that viewers leave between cells.
  style::plot_block(script, plot, cells,
                    " using 1:2:($1-" + half + "):($1+" + half + "):($2-" + half + "):($2+" + half +
                        "):3 with boxxyerror fs solid 1 border lw 0.5 lc palette notitle");
  style::finish(script, plot, stem);
}

}  // namespace qkgeom::examples
