// SPDX-License-Identifier: MIT
// Figures over steps: a mark per value, a bar per error, a column per share.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "qkgeom/core/error.hpp"
#include "tests/examples/common/drawn_figure.hpp"

namespace qkgeom::examples {
namespace {

using test::count;
using test::null;
using test::point;

/// The SVG from the first plot element on.
template <class F>
std::string plot_of(const F& figure) {
  const std::string svg = test::drawn(figure);
  return svg.substr(svg.find("gnuplot_plot_1"));
}

TEST(StepFigure, HasAMarkForEachValueAndNamesItsSteps) {
  step_figure f;
  f.steps = {"one", "two_2", "three"};
  f.lines = {{"solid", palette::blue, {1, null, 3}, {0.1, 0.1, null}}, {"dashed", palette::black, {2, 2, 2}, {}, true}};
  const std::string svg = plot_of(f);
  EXPECT_EQ(count(svg, point), 5u);
  f.log_y = true;
  f.lines[0].y = {1, 0, -3};
  EXPECT_EQ(count(plot_of(f), point), 4u) << "a log axis has no place for 0 and below";
}

TEST(StepFigure, GrowsForLongAndManyNames) {
  // `side`: width or height of the SVG.
  const auto size = [](const step_figure& f, const std::string& side) {
    const std::string svg = test::drawn(f);
    return std::stoi(svg.substr(svg.find(" " + side + "=\"") + side.size() + 3));
  };
  step_figure f;
  f.steps = {"one", "two"};
  f.lines = {{"a", palette::blue, {1, 2}, {}}};
  EXPECT_EQ(size(f, "width"), 880);
  EXPECT_EQ(size(f, "height"), 540);
  f.lines[0].name = std::string(58, 'n');
  EXPECT_GT(size(f, "width"), 880 + 7 * 20);
  EXPECT_EQ(size(f, "height"), 540);
  f.lines[0].name = std::string(100, 'm') + "end";
  EXPECT_EQ(count(test::drawn(f), ">" + std::string(30, 'm') + "\u2026" + std::string(26, 'm') + "end<"), 1u);
  f.lines.assign(30, {"a", palette::blue, {1, 2}, {}});
  EXPECT_GT(size(f, "height"), 540 + 100);
  f.lines.assign(1, {"a", palette::blue, std::vector<double>(20, 1), {}});
  f.steps.assign(20, "s");
  f.steps.back() = std::string(58, 's');
  EXPECT_GT(size(f, "height"), 540 + 50);
  EXPECT_GT(size(f, "width"), 880);
}

TEST(StepFigure, WithoutAnyValueHasItsFrame) {
  step_figure f;
  f.steps = {"one", "two"};
  f.lines = {{"a", palette::blue, {null, null}, {}}, {"b", palette::black, {null, null}, {0.1, 0.1}}};
  EXPECT_EQ(count(plot_of(f), point), 0u);
  f.log_y = true;
  f.lines[0].y = {0, -1};
  EXPECT_EQ(count(plot_of(f), point), 0u);
}

TEST(StepFigure, HasABarForEachError) {
  const auto bars = [](std::vector<double> error) {
    step_figure f;
    f.steps = {"one", "two", "three"};
    f.lines = {{"", palette::blue, {1, 2, 3}, std::move(error)}};
    f.y_low = 0;
    f.y_high = 4;
    return count(plot_of(f), "<path");
  };
  const std::size_t none = bars({});
  EXPECT_GT(bars({0.1, null, 0.2}), none);
  EXPECT_EQ(bars({null, null, null}), none);
}

TEST(ShareFigure, HasAColumnForEachShareAboveZero) {
  share_figure f;
  f.steps = {"one", "two"};
  f.parts = {{"a", palette::blue, {0.25, 0}}, {"b", palette::green, {0.75, 1}}};
  const std::string svg = plot_of(f);
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
