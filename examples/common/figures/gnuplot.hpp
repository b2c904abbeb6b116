// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

namespace qkgeom::examples {

/// What a figure is to gnuplot: data and commands, free of terminal and output, so that they serve SVG and PNG alike.
struct plot_script {
  int width = 760, height = 540;  ///< of the SVG in pixels; the PNG has twice as many
  std::string data;               ///< datablocks
  std::string commands;           ///< ends with the plot command
};

/// Runs gnuplot on `script` and writes STEM.svg and STEM.png, each under a temporary name first.
/// Throws `error` if gnuplot is not installed, fails, or leaves an incomplete file.
void write_plot(const plot_script& script, const std::filesystem::path& stem);

/// `text` as a gnuplot string. Terminals run without markup, so that an underscore is an underscore.
std::string quoted(const std::string& text);

/// A number as gnuplot reads it; NaN where there is none.
std::string number_text(double value);

}  // namespace qkgeom::examples
