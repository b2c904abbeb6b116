// SPDX-License-Identifier: MIT
#include "examples/report/page.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "examples/common/figures/figure_style.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/stats/quantile.hpp"

namespace qkgeom::examples {

namespace {

/// The words of a verdict by its number: in a table, at the start of a sentence, for where the interval lies.
constexpr struct {
  const char *in_table, *begins, *lies;
} verdict_words[] = {{"met", "Met: ", "lies below "},
                     {"not met", "Not met: ", "lies above "},
                     {"cannot be said", "Cannot be said: ", "holds "}};

}  // namespace

std::string words_of(verdict v) { return verdict_words[static_cast<int>(v)].in_table; }

std::string target_statement(const estimate& drop, index_t context_length) {
  const std::string limit = fixed(drop_target, 2), over = " over " + grouped(context_length) + " tokens";
  if (!std::isfinite(drop.value))
    return "Cannot be said: no query bucket with pairs lies in the first or in the last fifth of the context.";
  const std::string drops = "AP_drop is " + estimate_text(drop) + over;
  if (!std::isfinite(drop.error))
    return "Cannot be said: " + drops + ", and fewer than three documents give no standard error to judge it by.";
  const auto& words = verdict_words[static_cast<int>(judge(drop))];
  return words.begins + drops + ", and its 95 % interval " + words.lies + limit + ".";
}

void print_target(printer& out, const model_report& report, bool verdict_too) {
  if (report.heads.empty() || report.heads[0].profiles.empty()) return;
  out.heading("Target: AP_drop below " + fixed(drop_target, 2) + " over the context");
  if (verdict_too) out.line("  " + target_statement(summarize_model(report)[0].drop, report.context_length));
  std::string note = "  Mean over heads under the " + std::string(report.heads[0].profiles[0].covariance) +
                     " query model, standard error over documents.";
  if (report.context_length < target_context)
    note += " The thesis sets the target (7.4) for " + grouped(target_context) + " tokens and more.";
  out.line(note + "\n");
  table t({{"query model", table::align::left}, {"", table::align::left}, {"AP_drop"}, {"target", table::align::left}});
  const auto rows = [&](int profile, std::string name) {
    if (profile != 0) t.rule();
    for (const auto& g : summarize_model(with_headline(report, profile)))
      t.row({std::exchange(name, ""), words_for_heads(g.name), estimate_text(g.drop, true), words_of(judge(g.drop))});
  };
  for (std::size_t p = 0; p < report.heads[0].profiles.size(); ++p)
    rows(static_cast<int>(p), std::string(report.heads[0].profiles[p].covariance));
  if (report.heads[0].empirical) rows(-1, "observed queries");
  out.print(t);
}

std::vector<scored_model> read_scored_models(const std::filesystem::path& file,
                                             const std::vector<std::string>& columns) {
  require(columns.size() == 3, "--others-columns takes three names, of model, AP_drop and score, not ", columns.size());
  const auto csv = read_csv(file);
  std::string there;
  for (const auto& name : csv.columns()) there += (there.empty() ? "" : ", ") + name;
  for (const auto& name : columns)
    require(csv.has(name), file.string(), ": there is no column ", name,
            "; --others-columns names those of model, AP_drop and score among ", there);
  const auto& names = csv.column(columns[0]);
  const auto drops = csv.numbers(columns[1]), scores = csv.numbers(columns[2]);
  std::vector<scored_model> models;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::isfinite(drops[i]) && std::isfinite(scores[i])) models.push_back({names[i], drops[i], scores[i]});
  require(!models.empty(), file.string(), ": no row has both ", columns[1], " and ", columns[2]);
  return models;
}

double median_score(const std::vector<scored_model>& models) {
  std::vector<double> scores;
  for (const auto& m : models) scores.push_back(m.score);
  return quantile(std::move(scores), 0.5);
}

quadrant quadrant_of(const estimate& drop, double score, double median) {
  quadrant q{judge(drop), score >= median, {}};
  const std::string against = std::string(q.high ? "at or above" : "below") + " the others' median of ";
  q.statement = "A score of " + significant(score, 4) + " is " + against + significant(median, 4) + "; ";
  if (q.flat == verdict::open)
    q.statement += "on which side of the target AP_drop lies cannot be said.";
  else if (q.flat == verdict::met)
    q.statement += "with AP_drop below the target, " +
                   std::string(q.high ? "the model keeps its context and scores."
                                      : "the thesis calls such a model capability-limited (7.2).");
  else
    q.statement +=
        "with AP_drop above the target, " +
        std::string(q.high ? "the thesis calls such a model context-limited (7.2)." : "the model is limited in both.");
  return q;
}

namespace {

using namespace style;

/// Place of a point's label: offset of its anchor in pixels, and the side of the text at the anchor.
struct place {
  double dx, dy;
  const char* side;
};
// clang-format off
constexpr place places[] = {{9, 0, "left"}, {-9, 0, "right"}, {0, 15, "center"}, {0, -15, "center"},
                            {9, 13, "left"}, {9, -13, "left"}, {-9, 13, "right"}, {-9, -13, "right"}};
// clang-format on

struct box {
  double left, bottom, right, top;
  bool meets(const box& o) const { return left < o.right && o.left < right && bottom < o.top && o.bottom < top; }
};

box box_of(double x, double y, const place& p, const std::string& text) {
  const double width = 6.6 * static_cast<double>(display_width(text)), left = x + p.dx;
  const double from = p.side[0] == 'l' ? left : p.side[0] == 'r' ? left - width : left - width / 2;
  return {from, y + p.dy - 8, from + width, y + p.dy + 8};
}

/// The first place where the label meets neither `taken` nor `lines`, else the first that does not meet `taken`, else
/// the first of all. Adds the label's box to `taken`.
const place& free_place(double x, double y, const std::string& text, const box& axes, const std::vector<box>& lines,
                        std::vector<box>& taken) {
  const auto meets = [](const box& b, const std::vector<box>& others) {
    return std::any_of(others.begin(), others.end(), [&](const box& o) { return b.meets(o); });
  };
  for (const bool over_lines : {false, true})
    for (const auto& p : places) {
      const box b = box_of(x, y, p, text);
      if (b.left < axes.left || b.right > axes.right || b.bottom < axes.bottom || b.top > axes.top) continue;
      if (meets(b, taken) || (!over_lines && meets(b, lines))) continue;
      taken.push_back(b);
      return p;
    }
  return places[0];
}

/// Limits around values, with a margin.
std::array<double, 2> limits(std::vector<double> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double spare = *high > *low ? 0.12 * (*high - *low) : 1;
  return {*low - spare, *high + spare};
}

}  // namespace

void draw(const quadrant_figure& f, const std::filesystem::path& stem) {
  constexpr canvas c{.width = 760, .height = 560, .left = 68, .right = 23, .bottom = 73, .top = 84};
  plot_script script{c.width, c.height, {}, {}};
  const double median = median_score(f.others);
  std::vector<double> x{drop_target, 0, f.drop.value}, y{median, f.score};
  if (std::isfinite(f.drop.error))
    for (const double side : {-1.0, 1.0}) x.push_back(f.drop.value + side * half_width(f.drop));
  for (const auto& m : f.others) {
    x.push_back(m.drop);
    y.push_back(m.score);
  }
  const auto [x0, x1] = limits(x);
  const auto [y0, y1] = limits(y);
  const box axes{c.left, c.bottom, c.width - c.right, c.height - c.top};
  const auto px = [&, x0 = x0, x1 = x1](double v) {
    return axes.left + (axes.right - axes.left) * (v - x0) / (x1 - x0);
  };
  const auto py = [&, y0 = y0, y1 = y1](double v) {
    return axes.bottom + (axes.top - axes.bottom) * (v - y0) / (y1 - y0);
  };

  std::string& s = script.commands;
  s +=
      frame({f.title, f.subtitle, "AP_drop: plasticity of the first fifth of the context minus the last", f.score_name},
            c) +
      open_axes() + "unset grid\nset xrange [" + number_text(x0) + ":" + number_text(x1) + "]\nset yrange [" +
      number_text(y0) + ":" + number_text(y1) + "]\n";
  const auto line = [&](const std::string& from, const std::string& to) {
    s += "set arrow from " + from + " to " + to + " nohead lw 1.2 dt 2 lc " + rgb(faint_ink) + " back\n";
  };
  line(number_text(drop_target) + ", graph 0", number_text(drop_target) + ", graph 1");
  line("graph 0, first " + number_text(median), "graph 1, first " + number_text(median));
  const auto label = [&](const std::string& words, double at_x, double at_y, const char* side,
                         const std::string& look) {
    s += "set label " + quoted(words) + " at screen " + number_text(at_x / script.width) + ", screen " +
         number_text(at_y / script.height) + " " + side + " font " + look + "\n";
  };
  std::vector<box> taken;
  const auto corner = [&](const std::string& words, bool at_left, bool at_top) {
    const place p{0, 0, at_left ? "left" : "right"};
    const double cx = at_left ? axes.left + 8 : axes.right - 6, cy = at_top ? axes.top - 12 : axes.bottom + 12;
    taken.push_back(box_of(cx, cy, p, words));
    label(words, cx, cy, p.side, "',11' tc " + rgb(faint_ink));
  };
  corner("keeps its context, high score", true, true);
  corner("capability-limited", true, false);
  corner("context-limited", false, true);
  corner("limited in both", false, false);

  datablock others("others"), ours("ours");
  std::vector<scored_model> all{{f.model, f.drop.value, f.score}};
  all.insert(all.end(), f.others.begin(), f.others.end());
  for (const auto& m : all) {
    const double cx = px(m.drop), cy = py(m.score);
    if (std::isfinite(m.drop)) taken.push_back({cx - 6, cy - 6, cx + 6, cy + 6});
  }
  if (std::isfinite(f.drop.error))
    taken.push_back({px(f.drop.value - half_width(f.drop)), py(f.score) - 6, px(f.drop.value + half_width(f.drop)),
                     py(f.score) + 6});
  const double line_x = px(drop_target), line_y = py(median);
  const std::vector<box> lines{{line_x - 1, axes.bottom, line_x + 1, axes.top},
                               {axes.left, line_y - 1, axes.right, line_y + 1}};
  for (const auto& m : all) {
    if (!std::isfinite(m.drop)) continue;
    const double cx = px(m.drop), cy = py(m.score);
    const auto& p = free_place(cx, cy, m.name, axes, lines, taken);
    label(m.name, cx + p.dx, cy + p.dy, p.side, "',12' tc " + rgb(&m == &all[0] ? palette::vermilion : ink) + " front");
  }
  for (const auto& m : f.others) others.row(m.drop, m.score);
  if (std::isfinite(f.drop.value))
    ours.row(f.drop.value, f.score, std::isfinite(f.drop.error) ? half_width(f.drop) : 0.0);
  plot_list plots;
  const auto shape = [](marker m) { return std::to_string(point_type(m)); };
  plot_block(script, plots, others,
             " using 1:2 with points pt " + shape(marker::circle) + " ps 0.8 lc " + rgb(palette::blue));
  plot_block(
      script, plots, ours,
      " using 1:2:3 with xerrorbars pt " + shape(marker::diamond) + " ps 1.3 lw 1.6 lc " + rgb(palette::vermilion));
  s += plots.str();
  write_plot(script, stem);
}

}  // namespace qkgeom::examples
