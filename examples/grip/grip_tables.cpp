// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "examples/common/figures/figure_style.hpp"
#include "examples/common/figures/head_cells.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/numbers/misses.hpp"
#include "examples/common/terminal.hpp"
#include "examples/grip/grip_study.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

/// One end of the interval of nine in ten of a share.
double end_of(const estimate& e, int side) {
  return std::clamp(e.value + side * half_width(e, interval_miss), 0.0, 1.0);
}

}  // namespace

qkgeom::table grip_table(const grip_study& s) {
  struct row {
    const head_report* head;
    const grip_value* g;
    const grip_value* actual;
  };
  auto c = head_columns<4, row>(&row::head);
  c.of(&row::g)
      .add("needle", "`winner`: highest score among the nearest keys; `matched`: key after the token's last occurrence",
           [](auto& g) { return name_of(g.needle); })
      .add("top", "number of highest scores", &grip_value::top)
      .add("length", "number of nearest keys that compete", &grip_value::length)
      .add("cases", "queries with such a needle", &grip_value::cases)
      .add("grip", "share of the needles that are among the highest scores", &grip_value::value)
      .add("low", "lower end of the interval of nine in ten of grip", [](auto& g) { return end_of(g.value, -1); })
      .add("high", "upper end of the interval of nine in ten of grip", [](auto& g) { return end_of(g.value, 1); })
      .add("with_tail", "grip if a fitted tail counts where no far key scores higher; the error holds the difference",
           &grip_value::with_tail)
      .add("least", "grip if all of that tail were above the needles", &grip_value::least)
      .add("most", "grip if none of it were", &grip_value::most)
      .add("chance", "grip on exchangeable keys", &grip_value::chance);
  c.add("actual", "grip as counted in the long documents of --actual",
        [](auto& r) { return r.actual ? r.actual->value : estimate{}; });
  return std::move(c).with_rows([&s](const auto& f) {
    for (std::size_t h = 0; h < s.predicted.size(); ++h)
      for (std::size_t i = 0; i < s.predicted[h].grip.size(); ++i)
        f(row{&s.whole.report.heads[h], &s.predicted[h].grip[i], s.actual.empty() ? nullptr : &s.actual[h].grip[i]});
  });
}

qkgeom::table grip_heads_table(const grip_study& s) {
  struct row {
    const head_report* head;
    const head_grip* g;
  };
  auto c = head_columns<4, row>(&row::head);
  const index_t context = s.options.lengths.back();
  for (const auto kind : all_needle_kinds)
    for (const index_t top : s.options.tops)
      c.of(&row::g).add(
          std::string(name_of(kind)) + "_" + std::to_string(top),
          std::string("grip of the ") + name_of(kind) + " needle, top " + std::to_string(top) + " of the whole context",
          [=](auto& g) { return g.at(kind, context, top).value; });
  for (const index_t top : s.options.tops)
    c.of(&row::g).add("chance_" + std::to_string(top), "winner_" + std::to_string(top) + " on exchangeable keys",
                      [=](auto& g) { return g.at(needle_kind::winner, context, top).chance; });
  c.of(&row::g).add("reach",
                    "distance at which half of the matched keys fall out of the top 64 of the context, tokens; 0: they "
                    "are out at 16 tokens, the context: they stay",
                    &head_grip::reach);
  return std::move(c).with_rows([&s](const auto& f) {
    for (std::size_t h = 0; h < s.predicted.size(); ++h) f(row{&s.whole.report.heads[h], &s.predicted[h]});
  });
}

qkgeom::table reach_table(const grip_study& s) {
  struct row {
    const head_report* head;
    const kept_share* k;
    const kept_share* actual;
  };
  auto c = head_columns<4, row>(&row::head);
  c.of(&row::k)
      .add("from", "least distance of the matched key from the query, tokens", &kept_share::from)
      .add("to", "end of the distances, excluded, tokens", &kept_share::to)
      .add("cases", "number of matched keys, moved to such distances", &kept_share::cases)
      .add("kept", "share of them among the 64 highest scores of the context", &kept_share::value);
  c.add("actual", "share of the keys that stand so far back in the documents of --actual",
        [](auto& r) { return r.actual ? r.actual->value : estimate{}; });
  return std::move(c).with_rows([&s](const auto& f) {
    for (std::size_t h = 0; h < s.predicted.size(); ++h)
      for (std::size_t b = 0; b < s.predicted[h].kept.size(); ++b)
        f(row{&s.whole.report.heads[h], &s.predicted[h].kept[b], s.actual.empty() ? nullptr : &s.actual[h].kept[b]});
  });
}

qkgeom::table stability_table(const grip_study& s) {
  struct row {
    const head_report* head;
    const order_stability* o;
  };
  auto c = head_columns<4, row>(&row::head);
  c.of(&row::o)
      .add("window", "number of distances that a pair of keys is moved over, tokens", &order_stability::window)
      .add("semantic", "share of pairs that keep the order they have at distance 0, by rope-profiler's normal formula",
           &order_stability::semantic)
      .add("counted", "the same, counted at the distances", &order_stability::counted)
      .add("steps", "positional score of rope-profiler: mean change of a score by one token over its size",
           &order_stability::steps);
  return std::move(c).with_rows([&s](const auto& f) {
    for (std::size_t h = 0; h < s.stability.size(); ++h)
      for (const auto& o : s.stability[h]) f(row{&s.whole.report.heads[h], &o});
  });
}

qkgeom::table grip_check_table(const grip_study& s) {
  table_columns<grip_check> c;
  c.add("from", "part of the capture that predicts its whole length, or `actual`: the whole, long documents",
        &grip_check::from);
  c.add("needle", "as in grip.csv", [](auto& r) { return name_of(r.needle); });
  c.add("top", "number of highest scores", &grip_check::top);
  c.add("length", "number of nearest keys that compete", &grip_check::length);
  c.add("group", group_meaning, &grip_check::group);
  c.add("heads", "number of heads that have both values", &grip_check::heads);
  c.add("actual", "mean over heads of the grip that was counted", &grip_check::actual);
  c.add("predicted", "mean over heads of the predicted grip", &grip_check::predicted);
  c.add("miss_rms", "root mean square over heads of predicted less actual", &grip_check::miss_rms);
  c.add("correlation", "correlation of actual and predicted over heads", &grip_check::correlation);
  c.add("in_interval",
        "share of heads whose predicted less actual grip is within nine in ten of both errors; empty for parts",
        &grip_check::in_interval);
  return std::move(c).with_rows(s.checks);
}

namespace {

/// Mean over a group of heads of a number that not all have.
template <class Of>
double mean_over(const grip_study& s, const std::vector<std::size_t>& heads, const Of& of) {
  double sum = 0, n = 0;
  for (const std::size_t h : heads)
    if (const double x = of(s.predicted[h]); !std::isnan(x)) sum += x, ++n;
  return n > 0 ? sum / n : NAN;
}

step_figure curves(const grip_study& s) {
  step_figure f;
  f.text = {"Needles that stay on top as the context grows",
            s.whole.report.model + ", from documents of " + grouped(s.whole.report.context_length) +
                " tokens; means over heads; dashed: chance",
            "keys that compete", "grip"};
  f.y_low = 0;
  f.y_high = 1;
  for (const index_t n : s.options.lengths) f.steps.push_back(style::token_label(static_cast<double>(n)));
  constexpr colour colours[][2] = {
      {palette::black, palette::green}, {rope_colour, palette::sky}, {nope_colour, palette::orange}};
  auto groups = head_groups(s.whole.report.heads);
  if (groups.size() > 1) groups.erase(groups.begin());
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t t = 0; t < s.options.tops.size() && t < 2; ++t) {
      const index_t top = s.options.tops[t];
      step_figure::series line{
          words_for_heads(groups[g]) + ", top " + std::to_string(top), colours[g + (groups.size() > 1)][t], {}, {}};
      step_figure::series chance{"chance, top " + std::to_string(top), palette::grey, {}, {}, true};
      for (const index_t n : s.options.lengths) {
        const auto at = [&](const head_grip& h) { return h.at(needle_kind::winner, n, top); };
        line.y.push_back(mean_over(s, groups[g].heads, [&](const auto& h) { return at(h).value.value; }));
        chance.y.push_back(mean_over(s, groups[g].heads, [&](const auto& h) { return at(h).chance; }));
      }
      f.lines.push_back(std::move(line));
      if (g == 0) f.lines.push_back(std::move(chance));
    }
  return f;
}

map_figure map_of(const grip_study& s) {
  map_figure f;
  const auto& report = s.whole.report;
  f.text = {"Which heads keep what they have found",
            about(report) + "; among " + grouped(s.options.lengths.back()) + " keys, from documents of " +
                grouped(report.context_length) + " tokens",
            "query head", "layer"};
  f.scale_label = "grip";
  const auto panel = [&](const std::string& title, const auto& value) {
    auto cells = cells_of(report, f, [&](const head_report& h) {
      return value(s.predicted[static_cast<std::size_t>(&h - report.heads.data())]);
    });
    f.panels.push_back({title, std::move(cells)});
  };
  const index_t n = s.options.lengths.back();
  for (const auto kind : all_needle_kinds)
    panel(std::string(name_of(kind)) + " needle, top 8",
          [&](const head_grip& h) { return h.at(kind, n, 8).value.value; });
  return f;
}

scatter_figure actual_figure(const grip_study& s) {
  scatter_figure f;
  f.square = false;
  scatter_figure::series rope{"RoPE heads", rope_colour, marker::circle, {}, {}},
      nope{"NoPE heads", nope_colour, marker::triangle, {}, {}};
  index_t longest = 0;
  for (const auto& g : s.actual[0].grip)
    if (g.cases > 0) longest = std::max(longest, g.length);
  f.text = {"Grip of each head, predicted and counted",
            s.whole.report.model + ": top 8 of " + grouped(longest) + " keys, the winner of the nearest " +
                grouped(s.options.near),
            "predicted from documents of " + grouped(s.whole.report.context_length) + " tokens",
            "counted in long documents"};
  for (std::size_t h = 0; h < s.actual.size() && longest > 0; ++h) {
    auto& points = s.whole.report.heads[h].rope ? rope : nope;
    points.add(s.predicted[h].at(needle_kind::winner, longest, 8).value.value,
               s.actual[h].at(needle_kind::winner, longest, 8).value.value);
  }
  for (auto* points : {&rope, &nope})
    if (!points->x.empty()) f.points.push_back(std::move(*points));
  return f;
}

/// The model in a few lines.
void print_summary(printer& out, const grip_study& s) {
  const auto& heads = s.whole.report.heads;
  const index_t context = s.options.lengths.back();
  for (const auto& group : head_groups(heads)) {
    if (group.name == "all" && has_both_kinds(s.whole.report)) continue;
    const auto mean = [&](index_t top, bool chance) {
      return mean_over(s, group.heads, [&](const head_grip& h) {
        const auto& g = h.at(needle_kind::winner, context, top);
        return chance ? g.chance : g.value.value;
      });
    };
    out.line("  " + words_for_heads(group) + ": the best of the nearest " + grouped(s.options.near) +
             " keys stays first among " + grouped(context) + " in " + percent(mean(1, false)) + " of cases (chance " +
             significant(100 * mean(1, true), 2) + " %), in the top 8 in " + percent(mean(8, false)) + " (" +
             significant(100 * mean(8, true), 2) + " %)");
  }
  std::vector<std::size_t> reaching;
  for (std::size_t h = 0; h < heads.size(); ++h)
    if (s.predicted[h].reach.value > static_cast<double>(s.options.near)) reaching.push_back(h);
  const auto reach = [&](std::size_t h) { return s.predicted[h].reach.value; };
  std::sort(reaching.begin(), reaching.end(), [&](auto a, auto b) { return reach(a) > reach(b); });
  if (s.predicted[0].at(needle_kind::matched, context, 1).cases > 0) {
    const index_t far = std::min<index_t>(context, 32768);
    const auto still =
        std::count_if(reaching.begin(), reaching.end(), [&](auto h) { return reach(h) >= static_cast<double>(far); });
    out.line("  " + std::to_string(reaching.size()) + " of " + std::to_string(heads.size()) +
             " heads retrieve the key after a token's last occurrence from beyond " + grouped(s.options.near) +
             " tokens (top 64 of " + grouped(context) + " in half of the cases); " + std::to_string(still) +
             " still do at " + grouped(far) + " tokens");
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(5, reaching.size()); ++i)
      names += (i > 0 ? ", " : "") + short_name(heads[reaching[i]]) + " (" +
               grouped(static_cast<long long>(reach(reaching[i]))) + ")";
    if (!names.empty()) out.line("  Farthest, tokens: " + names);
  }
  std::string stable;
  for (std::size_t w = 0; w < s.stability[0].size(); ++w) {
    double sum = 0, n = 0;
    for (std::size_t h = 0; h < heads.size(); ++h)
      if (const double x = s.stability[h][w].counted.value; heads[h].rope && !std::isnan(x)) sum += x, ++n;
    stable += (w > 0 ? ", " : "") + fixed(sum / n, 2) + " at " +
              style::token_label(static_cast<double>(s.stability[0][w].window));
  }
  out.line("  Share of pairs of keys that keep their order when RoPE heads see both moved: " + stable);
}

}  // namespace

void write_grip(output_folder& out, const grip_study& found) {
  out.write("grip.csv", grip_table(found));
  out.write("grip_heads.csv", grip_heads_table(found));
  out.write("reach.csv", reach_table(found));
  out.write("stability.csv", stability_table(found));
  out.write("grip_check.csv", grip_check_table(found));
  draw(curves(found), out.figure("grip_curves"));
  draw(map_of(found), out.figure("grip_map"));
  if (!found.actual.empty()) draw(actual_figure(found), out.figure("grip_actual"));
}

void print_grip(printer& out, const grip_study& found) {
  out.heading("Grip among up to " + grouped(found.options.lengths.back()) + " keys");
  print_summary(out, found);
  if (found.checks.empty()) return;
  out.heading("How well grip is predicted, head by head");
  table t({"from", "needle", "heads"},
          {"top", "keys", "counted", "predicted", "rms miss", "correlation", "in interval"});
  index_t longest = 0;  // that long documents count
  for (const auto& c : found.checks)
    if (c.from == "actual") longest = std::max(longest, c.length);
  for (const auto& c : found.checks)
    if (c.from != "actual" || c.length == longest)
      t.row({c.from, name_of(c.needle), words_for_heads(c.group), std::to_string(c.top), grouped(c.length),
             fixed(c.actual, 3), fixed(c.predicted, 3), fixed(c.miss_rms, 3), fixed(c.correlation, 3),
             std::isnan(c.in_interval) ? "" : percent(c.in_interval)});
  out.print(t);
}

}  // namespace qkgeom::examples
