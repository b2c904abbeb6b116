// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "examples/common/figures/gnuplot.hpp"

namespace qkgeom::examples::style {

inline constexpr colour ink = 0x262626, faint_ink = 0x666666, rule = 0xe4e4e4, axis = 0xa6a6a6, null_cell = 0xe2e2e2;

/// "#rrggbb", or with `alpha` above 0 (255: transparent) "#aarrggbb".
std::string hex(colour c, unsigned alpha = 0);
/// "rgb '#rrggbb'", or with `opacity` below 1 "rgb '#aarrggbb'".
std::string rgb(colour c, double opacity = 1);

/// The colour between a (share 0) and b (share 1).
colour blend(colour a, colour b, double share);

/// A figure's size and its margins around the axes, in the SVG's pixels.
struct canvas {
  int width, height, left, right, bottom, top;

  /// Widens the right margin to at least so many pixels; the figure grows, not the axes shrink.
  void right_room(int pixels) {
    width += std::max(0, pixels - right);
    right = std::max(right, pixels);
  }
  void bottom_room(int pixels) {
    height += std::max(0, pixels - bottom);
    bottom = std::max(bottom, pixels);
  }
  double x(int pixels) const { return static_cast<double>(pixels) / width; }  ///< share of the width
  double y(int pixels) const { return static_cast<double>(pixels) / height; }
};

/// Margins, title, subtitle and axis labels; a title wider than the figure is set smaller.
std::string frame(const figure_text& text, const canvas& c);

/// Approximate width of a line of text in pixels, rather too much.
int text_width(const std::string& text);

/// The text, or its beginning and end if it is longer than `max_characters`.
std::string shortened(const std::string& text, std::size_t max_characters = 60);

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& one : list) names.push_back(one.name);
  return names;
}

/// A legend to the right of the axes; the canvas grows for long or many names. `sample` and `spacing` are gnuplot's.
std::string legend(canvas& c, const std::vector<std::string>& names, double sample, double spacing);

/// Open axes with faint grid lines.
std::string open_axes();

/// The colours of a scale from low to high, and gnuplot's "set palette ..." for them.
std::vector<colour> colours_of(colour_scale scale);
std::string palette_of(colour_scale scale);

/// At most ten round numbers of tokens from 0 to `end`, and gnuplot's tic marks there, labelled "4K" for 4096.
std::vector<double> token_ticks(double end);
std::string token_tics(const char* axis_name, double end);
std::string token_label(double tokens);

/// gnuplot's number of the filled shape.
int point_type(marker shape);
/// " with points ..." of gnuplot; shapes of one size look equally large. `line_colour` as `rgb` gives it.
std::string points_with(marker shape, double size, const std::string& line_colour);

/// gnuplot's commands that set the labels beside the points; `tag` goes up by one per label.
std::string point_labels(const scatter_figure::series& points, int& tag);

/// A dashed line across the axes at one value of x or y.
std::string threshold_line(bool vertical, double value);

/// A named block of data rows of a gnuplot script.
class datablock {
 public:
  explicit datablock(const std::string& name) : name_("$" + name), text_(name_ + " << END\n") {}

  template <class... Values>
  datablock& row(const Values&... values) {
    ((text_ += cell(values) + " "), ...);
    text_ += "\n";
    ++rows_;
    return *this;
  }
  /// Ends a polyline.
  void gap() { text_ += "\n"; }

  bool empty() const { return rows_ == 0; }
  const std::string& name() const { return name_; }
  std::string str() const { return text_ + "END\n"; }

 private:
  static std::string cell(double v) { return number_text(v); }
  static std::string cell(const std::string& word) { return word; }

  std::string name_, text_;
  int rows_ = 0;
};

/// The elements of gnuplot's plot command.
class plot_list {
 public:
  void add(const std::string& element) { elements_.push_back(element); }
  bool empty() const { return elements_.empty(); }
  void add(const plot_list& others) {
    for (const auto& e : others.elements_) add(e);
  }
  std::string str() const {
    std::string s;
    for (const auto& e : elements_) s += (s.empty() ? "plot " : ", \\\n  ") + e;
    return s + "\n";
  }

 private:
  std::vector<std::string> elements_;
};

/// Adds the block to the script's data and its element to the plot, unless the block is empty.
inline void plot_block(plot_script& script, plot_list& plot, const datablock& data, const std::string& look) {
  if (data.empty()) return;
  script.data += data.str();
  plot.add(data.name() + look);
}

/// Ends the commands with the plot and writes the figure. gnuplot needs one element even if no value is drawn.
inline void finish(plot_script& script, plot_list plot, const std::filesystem::path& stem) {
  plot.add("NaN notitle");
  script.commands += plot.str();
  write_plot(script, stem);
}

}  // namespace qkgeom::examples::style
