// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

namespace qkgeom::examples {

/// Data and commands of a figure; `write_plot` adds the terminal and the output file, once for SVG and once for PNG.
struct plot_script {
  int width = 760, height = 540;  ///< pixels of the SVG; the PNG has twice as many on each side
  std::string data;               ///< datablocks
  std::string commands;           ///< ends with the plot command
};

/// Whether gnuplot is installed. Throws `error` if it is, but does not run.
bool has_gnuplot();

/// Runs gnuplot on `script` and writes STEM.svg and STEM.png, each whole or not at all; the PNG of a very large figure
/// is smaller. An empty stem: draws nothing. Throws `error` if gnuplot is not installed, fails, or draws an incomplete
/// figure.
void write_plot(const plot_script& script, const std::filesystem::path& stem);

/// `text` as a gnuplot string. Terminals run without markup, so an underscore stays one.
std::string quoted(const std::string& text);
/// The same for the label of a tic, which gnuplot reads as a format of numbers.
std::string quoted_tic(const std::string& text);

/// A number as gnuplot reads it; infinities become NaN.
std::string number_text(double value);

}  // namespace qkgeom::examples
