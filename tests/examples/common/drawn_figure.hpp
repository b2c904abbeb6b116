// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "tests/io/scratch.hpp"

namespace qkgeom::test {

inline constexpr double null = std::numeric_limits<double>::quiet_NaN();
/// A mark in gnuplot's SVG.
inline constexpr const char* point = "<use xlink:href='#gpPt";

inline std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// Draws a figure and returns its SVG; checks that only SVG and PNG remain.
template <class Figure>
std::string drawn(const Figure& figure) {
  const scratch_folder folder;
  examples::draw(figure, folder / "figure");
  EXPECT_GT(std::filesystem::file_size(folder / "figure.png"), 1000u);
  EXPECT_EQ(folder.names().size(), 2u) << "a temporary file was left";
  return get(folder / "figure.svg");
}

}  // namespace qkgeom::test
