// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qkgeom::examples {

// A figure is its data and its words; `draw(figure, stem)` writes STEM.svg and STEM.png with gnuplot. Each finite value
// becomes exactly one mark, a NaN none (a map shows it as a grey cell). Words are plain text, never markup.

using colour = std::uint32_t;  ///< 0xRRGGBB

/// Okabe and Ito's colours, distinguishable under any colour vision.
namespace palette {
inline constexpr colour blue = 0x0072b2, vermilion = 0xd55e00, green = 0x009e73, purple = 0xcc79a7, orange = 0xe69f00,
                        sky = 0x56b4e9, grey = 0x8c8c8c, black = 0x000000;
}

enum class marker { circle, triangle, square, diamond };

struct figure_text {
  std::string title;     ///< the statement of the figure
  std::string subtitle;  ///< data and method
  std::string x, y;      ///< axis labels, with units
};

/// Points in classes, with shaded regions and threshold lines at +-t on both axes.
struct scatter_figure {
  struct series {
    std::string name;  ///< in the legend; empty: no entry
    colour fill = palette::black;
    marker shape = marker::circle;
    std::vector<double> x, y;
    std::vector<std::string> labels{};  ///< beside the points; empty: none

    void add(double x_value, double y_value) {
      x.push_back(x_value);
      y.push_back(y_value);
    }
  };
  struct region {
    double left, bottom, right, top;
    colour fill;
  };
  figure_text text;
  std::vector<series> points;
  std::vector<region> regions;
  std::vector<double> thresholds;
  double limit = 1;
  bool square = true;  ///< axes [-limit, limit]; false: axes fit the points
};

/// Values over token positions: a thin trace per head, and per group a bold mean with a band of +- its error.
struct line_figure {
  static constexpr std::size_t most_traces = 60;  ///< of a group; above, areas hold half and nine tenths of them
  struct group {
    std::string name;
    colour line = palette::black;
    std::vector<std::vector<double>> traces;  ///< (heads)(x)
    std::vector<double> mean, error;          ///< (x); empty: none
    bool dashed = false;                      ///< the mean's line
  };
  figure_text text;
  std::vector<double> x;  ///< tokens
  double x_end = 0;       ///< end of the axis, tokens
  std::vector<group> groups;
  double y_low = 0, y_high = 1;
  bool log_y = false;  ///< omits values of 0 and below; y_low must be above 0
};

/// Counts of values, groups stacked; one edge of the bins is 0.
struct histogram_figure {
  struct group {
    std::string name;
    colour fill = palette::grey;
    std::vector<double> values;
  };
  figure_text text;
  std::vector<group> groups;
};

/// Edges of the histogram's bins: evenly spaced, 0 among them, all finite values inside.
std::vector<double> histogram_edges(const std::vector<double>& values);

/// viridis from low to high, or blue - white - red with white at 0.
enum class colour_scale { sequential, diverging };

/// Matrices of values as coloured cells, panels side by side on one scale.
struct map_figure {
  struct panel {
    std::string title;
    std::vector<double> values;  ///< (rows, columns), row 0 at the top; NaN: grey
  };
  figure_text text;
  std::vector<std::string> rows, columns;  ///< labels
  std::vector<panel> panels;
  colour_scale scale = colour_scale::sequential;
  double low = 0, high = 1;
  std::string scale_label;
  int digits = 2;  ///< decimals of the number inside a cell, if it fits

  /// Diverging colours that end at +-`limit`.
  void diverge_to(double limit) {
    scale = colour_scale::diverging;
    low = -limit;
    high = limit;
  }
};

/// Mean value over (key distance, query distance), both in tokens; cells without a value stay white.
struct heatmap_figure {
  figure_text text;
  double cell = 0;             ///< tokens
  std::size_t width = 0;       ///< cells along each side
  std::vector<double> values;  ///< (key distance, query distance)
  double low = 0, high = 1;
  std::string scale_label;
};

/// Rows in a plane, coloured by position, with the path of their means along the context.
struct plane_figure {
  struct cloud {
    std::string name;
    std::array<colour, 2> ramp{};  ///< first and last position
    marker shape = marker::circle;
    std::vector<double> x, y, position;  ///< per row; position in tokens
    std::vector<double> mean_x, mean_y;  ///< means over successive stretches of the context
  };
  figure_text text;
  std::vector<cloud> clouds;
  double context_length = 0;  ///< tokens
};

/// Lines over labelled steps, e.g. checkpoints, with bars of +- the error.
struct step_figure {
  struct series {
    std::string name;  ///< in the legend
    colour line = palette::black;
    std::vector<double> y, error;  ///< (steps); error empty or NaN: none
    bool dashed = false;

    void add(double value, double half_bar) {
      y.push_back(value);
      error.push_back(half_bar);
    }
  };
  figure_text text;
  std::vector<std::string> steps;  ///< labels, from the left
  std::vector<series> lines;
  bool joined = true;                ///< lines join the points: the steps have an order
  bool log_y = false;                ///< omits values of 0 and below
  double y_low = NAN, y_high = NAN;  ///< NaN: fits the values
};

/// A column per step, divided into shares that add up to 1.
struct share_figure {
  struct part {
    std::string name;
    colour fill = palette::grey;
    std::vector<double> share;  ///< (steps)
  };
  figure_text text;
  std::vector<std::string> steps;
  std::vector<part> parts;  ///< from the bottom
};

inline constexpr std::array<colour, 2> query_ramp{0xa9d3f0, 0x08306b}, key_ramp{0xfdc48a, 0x7f2704};

void draw(const scatter_figure& figure, const std::filesystem::path& stem);
void draw(const line_figure& figure, const std::filesystem::path& stem);
void draw(const histogram_figure& figure, const std::filesystem::path& stem);
void draw(const map_figure& figure, const std::filesystem::path& stem);
void draw(const heatmap_figure& figure, const std::filesystem::path& stem);
void draw(const plane_figure& figure, const std::filesystem::path& stem);
void draw(const step_figure& figure, const std::filesystem::path& stem);
void draw(const share_figure& figure, const std::filesystem::path& stem);

}  // namespace qkgeom::examples
