// SPDX-License-Identifier: MIT
// Figures over steps: a mark for each value, a bar for each error, a column for each share.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "examples/common/figure.hpp"
#include "qkgeom/core/error.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::examples {
namespace {

constexpr double null = std::numeric_limits<double>::quiet_NaN();

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

template <class F>
std::string drawn(const F& figure) {
  const test::scratch_folder folder;
  draw(figure, folder / "figure");
  EXPECT_GT(std::filesystem::file_size(folder / "figure.png"), 1000u);
  std::ifstream file(folder / "figure.svg", std::ios::binary);
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  return svg.substr(svg.find("gnuplot_plot_1"));
}

constexpr const char* point = "<use xlink:href='#gpPt";

TEST(StepFigure, HasAMarkForEachValueAndNamesItsSteps) {
  step_figure f;
  f.steps = {"one", "two_2", "three"};
  f.lines = {{"solid", palette::blue, {1, null, 3}, {0.1, 0.1, null}}, {"dashed", palette::black, {2, 2, 2}, {}, true}};
  const std::string svg = drawn(f);
  EXPECT_EQ(count(svg, point), 5u);
  f.log_y = true;
  f.lines[0].y = {1, 0, -3};
  EXPECT_EQ(count(drawn(f), point), 4u) << "a log axis has no place for 0 and below";
}

TEST(StepFigure, HasABarForEachError) {
  const auto bars = [](std::vector<double> error) {
    step_figure f;
    f.steps = {"one", "two", "three"};
    f.lines = {{"", palette::blue, {1, 2, 3}, std::move(error)}};
    f.y_low = 0;
    f.y_high = 4;
    return count(drawn(f), "<path");
  };
  const std::size_t none = bars({});
  EXPECT_GT(bars({0.1, null, 0.2}), none);
  EXPECT_EQ(bars({null, null, null}), none);
}

TEST(ShareFigure, HasAColumnForEachShareAboveZero) {
  share_figure f;
  f.steps = {"one", "two"};
  f.parts = {{"a", palette::blue, {0.25, 0}}, {"b", palette::green, {0.75, 1}}};
  const std::string svg = drawn(f);
  EXPECT_EQ(count(svg, "<polygon"), 3u + 2u) << "with the two of the legend";
}

TEST(StepFigure, ValuesMustFitTheSteps) {
  const test::scratch_folder folder;
  step_figure f;
  f.steps = {"one"};
  f.lines = {{"", palette::blue, {1, 2}, {}}};
  EXPECT_THROW(draw(f, folder / "figure"), error);
}

}  // namespace
}  // namespace qkgeom::examples
