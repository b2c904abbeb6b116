// SPDX-License-Identifier: MIT
#include "examples/common/figures/figure_style.hpp"

#include <cmath>
#include <cstdio>

#include "examples/common/table.hpp"

namespace qkgeom::examples::style {

std::string hex(colour c, unsigned alpha) {
  char text[18];
  if (alpha > 0)
    std::snprintf(text, sizeof text, "#%02x%06x", alpha, c);
  else
    std::snprintf(text, sizeof text, "#%06x", c);
  return text;
}

std::string rgb(colour c, double opacity) {
  return "rgb '" + hex(c, static_cast<unsigned>(std::lround(255 * (1 - opacity)))) + "'";
}

colour blend(colour a, colour b, double share) {
  colour result = 0;
  for (int shift = 0; shift <= 16; shift += 8) {
    const double from = (a >> shift) & 0xff, to = (b >> shift) & 0xff;
    result |= static_cast<colour>(std::lround(from + (to - from) * std::clamp(share, 0.0, 1.0))) << shift;
  }
  return result;
}

int text_width(const std::string& text) { return 7 * static_cast<int>(display_width(text)); }

std::string shortened(const std::string& text, std::size_t max_characters) {
  const auto all = characters(text);
  if (all.size() <= max_characters) return text;
  std::string s;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i < max_characters / 2 || i + (max_characters - 1) / 2 >= all.size())
      s += all[i];
    else if (i == max_characters / 2)
      s += "…";
  return s;
}

std::string frame(const figure_text& text, const canvas& c) {
  std::string s;
  const auto margin = [&](const char* side, double share) {
    s += std::string("set ") + side + "margin at screen " + number_text(share) + "\n";
  };
  margin("l", c.x(c.left));
  margin("r", c.x(c.width - c.right));
  margin("b", c.y(c.bottom));
  margin("t", c.y(c.height - c.top));
  // gnuplot would centre title and subtitle over axes and legend; labels start at the left edge.
  const auto words = [&](int tag, const std::string& line, int down, double size, colour text_colour) {
    // A letter of a wide sans-serif font is 0.6 of the font size wide on average.
    const double fits = 0.96 * c.width / (0.6 * static_cast<double>(std::max<std::size_t>(1, display_width(line))));
    s += "set label " + std::to_string(tag) + " " + quoted(line) + " at screen 0.02, screen " +
         number_text(c.y(c.height - down)) + " left font '," + number_text(std::floor(10 * std::min(size, fits)) / 10) +
         "' tc " + rgb(text_colour) + "\n";
  };
  words(1, text.title, 24, 17, ink);
  words(2, text.subtitle, 50, 12, faint_ink);
  s += "set xlabel " + quoted(text.x) + " tc " + rgb(ink) + "\n";
  s += "set ylabel " + quoted(text.y) + " tc " + rgb(ink) + "\n";
  s += "set tics textcolor " + rgb(ink) + "\nunset key\n";
  return s;
}

std::string legend(canvas& c, const std::vector<std::string>& names, double sample, double spacing) {
  constexpr int gap = 13;
  int longest = 0, lines = 0;
  for (const auto& name : names) {
    longest = std::max(longest, text_width(shortened(name)));
    lines += !name.empty();
  }
  c.right_room(gap + 30 + static_cast<int>(8 * sample) + longest);
  const int high = static_cast<int>(16.5 * spacing * lines) - (c.height - c.top - c.bottom);
  c.height += std::max(0, high);
  return "set key at screen " + number_text(c.x(c.width - c.right + gap)) + ", graph 1 left top Left reverse samplen " +
         number_text(sample) + " spacing " + number_text(spacing) + " tc " + rgb(ink) + "\n";
}

std::string open_axes() {
  return "set border 3 lw 1 lc " + rgb(axis) + "\nset tics out nomirror scale 0.6\nset grid lw 0.8 lt 1 lc " +
         rgb(rule) + "\nset grid back\n";
}

std::vector<colour> colours_of(colour_scale scale) {
  if (scale == colour_scale::diverging)
    return {0x053061, 0x2166ac, 0x4393c3, 0x92c5de, 0xd1e5f0, 0xf7f7f7,
            0xfddbc7, 0xf4a582, 0xd6604d, 0xb2182b, 0x67001f};
  return {0x440154, 0x482878, 0x3e4a89, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779, 0x6dcd59, 0xb4de2c, 0xfde725};
}

std::string palette_of(colour_scale scale) {
  std::string s;
  int place = 0;
  for (const colour c : colours_of(scale)) s += (s.empty() ? "" : ", ") + std::to_string(place++) + " '" + hex(c) + "'";
  return "set palette defined (" + s + ")\n";
}

std::string token_label(double tokens) {
  const auto whole = static_cast<long long>(std::llround(tokens));
  char text[32];
  if (whole != 0 && whole % 1024 == 0)
    std::snprintf(text, sizeof text, "%lldK", whole / 1024);
  else if (whole != 0 && whole % 512 == 0 && whole > 1024)
    std::snprintf(text, sizeof text, "%.1fK", static_cast<double>(whole) / 1024);
  else
    std::snprintf(text, sizeof text, "%lld", whole);
  return text;
}

std::vector<double> token_ticks(double end) {
  double step = 1;
  for (const double next : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 64.0, 128.0, 256.0, 512.0}) {
    step = next;
    if (end / step <= 9) break;
  }
  while (end / step > 9) step *= 2;
  std::vector<double> ticks;
  for (double t = 0; t <= end * (1 + 1e-9); t += step) ticks.push_back(t);
  return ticks;
}

std::string token_tics(const char* axis_name, double end) {
  std::string s = std::string("set ") + axis_name + "tics (";
  for (const double t : token_ticks(end)) s += (t > 0 ? ", " : "") + quoted(token_label(t)) + " " + number_text(t);
  return s + ")\n";
}

int point_type(marker shape) {
  switch (shape) {
    case marker::circle:
      return 7;
    case marker::triangle:
      return 9;
    case marker::square:
      return 5;
    case marker::diamond:
      return 13;
  }
  return 7;
}

std::string points_with(marker shape, double size, const std::string& line_colour) {
  const double scale = shape == marker::triangle  ? 1.25
                       : shape == marker::diamond ? 1.3
                       : shape == marker::square  ? 0.9
                                                  : 1.0;
  return " with points pt " + std::to_string(point_type(shape)) + " ps " + number_text(size * scale) + " lc " +
         line_colour;
}

std::string point_labels(const scatter_figure::series& points, int& tag) {
  std::string s;
  for (std::size_t i = 0; i < points.labels.size(); ++i)
    s += "set label " + std::to_string(++tag) + " " + quoted(points.labels[i]) + " at first " +
         number_text(points.x.at(i)) + ", first " + number_text(points.y.at(i)) +
         " left offset 0.9,0.1 font ',10' tc " + rgb(faint_ink) + "\n";
  return s;
}

std::string threshold_line(bool vertical, double value) {
  const std::string v = number_text(value);
  return "set arrow from " +
         (vertical ? v + ", graph 0 to " + v + ", graph 1" : "graph 0, first " + v + " to graph 1, first " + v) +
         " nohead back lw 1 dt (6,4) lc " + rgb(faint_ink) + "\n";
}

}  // namespace qkgeom::examples::style
