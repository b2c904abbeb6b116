// SPDX-License-Identifier: MIT
// Every finite value of a figure is one mark in its SVG, every error a bar, and its words appear as written.
#include "examples/common/figures/figure.hpp"

#include "examples/common/figures/gnuplot.hpp"
#include "qkgeom/io/file.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::examples {
namespace {

namespace fs = std::filesystem;

constexpr double null = std::numeric_limits<double>::quiet_NaN();
/// Marks in gnuplot's SVG: points, and bars or cells.
constexpr const char *point = "<use xlink:href='#gpPt", *box = "<polygon";

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// Draws a figure and returns its SVG; checks that only SVG and PNG remain.
template <class F>
std::string drawn(const F& figure) {
  const test::scratch_folder folder;
  draw(figure, folder / "figure");
  EXPECT_GT(fs::file_size(folder / "figure.png"), 1000u);
  EXPECT_EQ(folder.names().size(), 2u) << "a temporary file was left";
  return test::get(folder / "figure.svg");
}

/// Draws a figure and returns the groups of gnuplot's plot elements: data and legend, but no axes and no colour bar.
template <class F>
std::string plotted(const F& figure) {
  std::string inside;
  const std::string svg = drawn(figure);
  for (std::size_t at = svg.find("<g id=\"gnuplot_plot_"); at != std::string::npos;
       at = svg.find("<g id=\"gnuplot_plot_", at)) {
    std::size_t end = at + 1;
    for (int depth = 1; depth > 0 && end != std::string::npos;) {
      const std::size_t open = svg.find("<g ", end), close = svg.find("</g>", end);
      depth += open < close ? 1 : -1;
      end = std::min(open, close);
      if (end != std::string::npos) ++end;
    }
    inside += svg.substr(at, end - at);
    at = end;
  }
  return inside;
}

using Figure = test::in_scratch_folder;

TEST_F(Figure, ScatterHasAMarkForEachPointAndForEachNameInTheLegend) {
  scatter_figure f;
  f.thresholds = {0.3, 0.7};
  f.regions = {{-0.3, -0.3, 0.3, 0.3, palette::grey}};
  f.points = {{"one", palette::blue, marker::circle, {0.1, 0.2, -1.0}, {0.5, -1.0, 1.0}},
              {"", palette::green, marker::diamond, {0.9, null}, {-0.2, 0.1}},
              {"none of these", palette::grey, marker::square, {}, {}}};
  EXPECT_EQ(count(plotted(f), point), 4u + 2u);
}

TEST_F(Figure, ProfileHasAMarkForEachValueOfTracesAndMeans) {
  line_figure f;
  f.x = {256, 768, 1280, 1792};
  f.x_end = 2048;
  f.groups = {{"RoPE",
               palette::blue,
               {{null, 0.1, 0.2, 0.3}, {0.5, null, 0.7, 1.0}},
               {0.5, 0.4, 0.45, null},
               {0.1, 0.1, null, null},
               false},
              {"NoPE", palette::vermilion, {{0.0, 0.1, 0.2, 0.3}}, {}, {}, false}};
  EXPECT_EQ(count(plotted(f), point), (3u + 3u + 3u) + 4u);
  f.log_y = true;
  f.y_low = 0.01;
  EXPECT_EQ(count(plotted(f), point), (3u + 3u + 3u) + 3u);  // nothing for the 0
}

TEST_F(Figure, HistogramBarsHoldEveryValue) {
  const std::vector<double> values{-3, -0.5, -0.4, 0.1, 0.2, 0.3, 5, null};
  const auto edges = histogram_edges(values);
  EXPECT_THAT(edges, testing::Contains(0.0));
  EXPECT_LE(edges.front(), -3);
  EXPECT_GT(edges.back(), 5);
  std::size_t filled = 0;
  for (std::size_t b = 0; b + 1 < edges.size(); ++b)
    filled += std::any_of(values.begin(), values.end(), [&](double v) { return v >= edges[b] && v < edges[b + 1]; });
  histogram_figure f;
  f.groups = {{"heads", palette::blue, values}};
  EXPECT_EQ(count(plotted(f), box), filled + 1u);
}

TEST_F(Figure, HistogramOfNothingAndOfEqualValuesIsDrawn) {
  histogram_figure f;
  f.groups = {{"", palette::blue, {}}};
  EXPECT_EQ(count(plotted(f), box), 0u);
  f.groups = {{"", palette::blue, {0, 0, 0}}};
  EXPECT_EQ(count(plotted(f), box), 1u);
}

TEST_F(Figure, MapHasACellForEachValueAndForEachNull) {
  map_figure f;
  f.rows = {"0", "1"};
  f.columns = {"0", "1", "2"};
  f.panels = {{"r_q", {0.1, -0.7, null, 1, -1, 0}}, {"r_k", {null, null, 0.5, 0.25, -0.003, 0}}};
  f.scale = colour_scale::diverging;
  f.low = -1;
  const std::string marks = plotted(f);
  EXPECT_EQ(count(marks, box), 12u);
  EXPECT_EQ(count(marks, "<text>"), 9u) << "a number in each cell that has a value";
  EXPECT_EQ(count(marks, "-0.00"), 0u);
}

TEST_F(Figure, HeatmapHasACellForEachValue) {
  heatmap_figure f;
  f.cell = 512;
  f.width = 3;
  f.values = {0.1, 0.2, 0.3, 0.4, 0.5, null, 0.6, null, null};
  EXPECT_EQ(count(plotted(f), box), 6u);
}

TEST_F(Figure, PlaneHasAMarkForEachRowAndOneForTheEndOfTheMeans) {
  plane_figure f;
  f.context_length = 1024;
  f.clouds = {{"queries", query_ramp, marker::circle, {1, 2, 3}, {1, 2, 3}, {0, 512, 1023}, {1, 2}, {1, 2}},
              {"keys", key_ramp, marker::triangle, {-1, -2}, {4, 5}, {0, 1023}, {}, {}}};
  EXPECT_EQ(count(plotted(f), point), 5u + 2u);  // the end of the means has a white rim: two marks
}

TEST(StepFigure, HasAMarkForEachValueAndNamesItsSteps) {
  step_figure f;
  f.steps = {"one", "two_2", "three"};
  f.lines = {{"solid", palette::blue, {1, null, 3}, {0.1, 0.1, null}}, {"dashed", palette::black, {2, 2, 2}, {}, true}};
  EXPECT_EQ(count(plotted(f), point), 5u);
  f.log_y = true;
  f.lines[0].y = {1, 0, -3};
  EXPECT_EQ(count(plotted(f), point), 4u) << "a log axis has no place for 0 and below";
}

TEST(StepFigure, GrowsForLongAndManyNames) {
  // `side`: width or height of the SVG.
  const auto size = [](const step_figure& f, const std::string& side) {
    const std::string svg = drawn(f);
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
  EXPECT_EQ(count(drawn(f), ">" + std::string(30, 'm') + "\u2026" + std::string(26, 'm') + "end<"), 1u);
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
  EXPECT_EQ(count(plotted(f), point), 0u);
  f.log_y = true;
  f.lines[0].y = {0, -1};
  EXPECT_EQ(count(plotted(f), point), 0u);
}

TEST(StepFigure, HasABarForEachError) {
  const auto bars = [](std::vector<double> error) {
    step_figure f;
    f.steps = {"one", "two", "three"};
    f.lines = {{"", palette::blue, {1, 2, 3}, std::move(error)}};
    f.y_low = 0;
    f.y_high = 4;
    return count(plotted(f), "<path");
  };
  const std::size_t none = bars({});
  EXPECT_GT(bars({0.1, null, 0.2}), none);
  EXPECT_EQ(bars({null, null, null}), none);
}

TEST(ShareFigure, HasAColumnForEachShareAboveZero) {
  share_figure f;
  f.steps = {"one", "two"};
  f.parts = {{"a", palette::blue, {0.25, 0}}, {"b", palette::green, {0.75, 1}}};
  EXPECT_EQ(count(plotted(f), box), 3u + 2u) << "with the two of the legend";
}

TEST(StepFigure, ValuesMustFitTheSteps) {
  const test::scratch_folder folder;
  step_figure f;
  f.steps = {"one"};
  f.lines = {{"", palette::blue, {1, 2}, {}}};
  EXPECT_THROW(draw(f, folder / "figure"), error);
}

// The PNG terminal blackens a figure at a character that no font has; no font has U+10FFFD.
TEST_F(Figure, CharactersWithoutAFontAreQuestionMarksInThePng) {
  const auto png = [&](const std::string& title) {
    scatter_figure f;
    f.text.title = title;
    f.points = {{title, palette::blue, marker::circle, {0.1}, {0.5}}};
    draw(f, folder / "figure");
    EXPECT_EQ(count(test::get(folder / "figure.svg"), title), 2u);
    return test::get(folder / "figure.png");
  };
  const std::string asked = png("M? \u00b1 \u0416");
  EXPECT_TRUE(png("M\U0010fffd \u00b1 \u0416") == asked);
  EXPECT_FALSE(png("M? \u00b1 X") == asked);
  EXPECT_EQ(quoted("\xff\u00e9' \xe2 \x82"), "\"?\u00e9' ? ?\"");
}

TEST_F(Figure, WordsAreNoMarkup) {
  scatter_figure f;
  f.text = {"it's <a&b> 50 % {x_y} ^2", "model_name\\n \"quoted\" $HOME `ls`", "r_q", "r_k"};
  const std::string svg = drawn(f);
  EXPECT_EQ(count(svg, "<text>it's &lt;a&amp;b> 50 % {x_y} ^2</text>"), 1u);
  EXPECT_EQ(count(svg, "<text>model_name\\n \"quoted\" $HOME `ls`</text>"), 1u);
}

TEST_F(Figure, NamesMayHoldAnySign) {
  for (const std::string name : {"'tis", "a''b''", "%d 50 %", "\\140 \\", "\"", "`ls`", "@x $1"}) {
    std::string shown;  // in an SVG
    for (const char c : name) shown += c == '"' ? "&quot;" : std::string(1, c);
    map_figure f;
    f.text = {name, name, name, name};
    f.rows = {name};
    f.columns = {name};
    f.panels = {{name, {0.5}}};
    f.scale_label = name;
    const std::string svg = drawn(f);
    EXPECT_EQ(count(svg, ">" + name + "<") + count(svg, ">" + shown + "<"), (name == shown ? 2u : 1u) * 8u) << name;
    step_figure steps;
    steps.steps = {name};
    steps.lines = {{name, palette::blue, {1}, {}}};
    EXPECT_GE(count(drawn(steps), ">" + name + "<"), 2u) << name;
  }
}

TEST_F(Figure, ThousandsOfHeadsHaveACellEach) {
  map_figure f;
  f.rows = {"0", "1"};
  for (int h = 0; h < 1500; ++h) f.columns.push_back(std::to_string(h));
  f.panels.assign(2, {"r", std::vector<double>(3000, 0.5)});
  EXPECT_EQ(count(plotted(f), box), 6000u);
}

TEST_F(Figure, FolderMayHaveAnyName) {
  const fs::path odd = folder / "a\nb'c\"`ls`";
  fs::create_directory(odd);
  draw(scatter_figure{}, odd / "'figure'\n");
  EXPECT_TRUE(fs::exists(odd / "'figure'\n.svg") && fs::exists(odd / "'figure'\n.png"));
}

TEST_F(Figure, FolderThatIsNotThereIsAnError) {
  EXPECT_THROW(draw(scatter_figure{}, folder / "nowhere" / "figure"), error);
}

/// What drawing says where `folder` is the PATH.
std::string said_with(const fs::path& folder) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.c_str(), 1);
  const auto said = qkgeom::test::message_of([&] { draw(scatter_figure{}, folder / "figure"); });
  ::setenv("PATH", path.c_str(), 1);
  return said;
}

TEST_F(Figure, MissingGnuplotIsSaid) {
  EXPECT_THAT(said_with(folder.path()), testing::HasSubstr("gnuplot is not installed"));
}

// As the loader ends a program whose libraries it cannot map.
TEST_F(Figure, GnuplotThatCannotBeLoadedIsNotMissing) {
  write_text(folder / "gnuplot",
             "#!/bin/sh\necho 'gnuplot: libgd.so: cannot map: Cannot allocate memory' >&2\nexit 127\n");
  fs::permissions(folder / "gnuplot", fs::perms::owner_all);
  EXPECT_EQ(said_with(folder.path()), "gnuplot failed: gnuplot: libgd.so: cannot map: Cannot allocate memory");
}

TEST_F(Figure, FigureThatIsNotDrawnToItsEndIsNotWritten) {
  write_text(folder / "gnuplot", "#!/bin/sh\nexit 0\n");
  fs::permissions(folder / "gnuplot", fs::perms::owner_all);
  EXPECT_EQ(said_with(folder.path()),
            (folder / "figure.svg").string() + ": gnuplot did not draw the figure to its end");
  EXPECT_EQ(folder.names().size(), 1u);
}

TEST_F(Figure, FailureOfGnuplotIsSaid) {
  EXPECT_QKGEOM_ERROR("gnuplot failed: ", write_plot({100, 100, "", "plot no_such_thing(x)\n"}, folder / "figure"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace qkgeom::examples
