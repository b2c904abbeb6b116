// SPDX-License-Identifier: MIT
#include "examples/common/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/figures/figure_style.hpp"
#include "examples/common/figures/head_cells.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

/// The groups that figures show: RoPE and NoPE layers if the model has both, else all heads.
std::vector<const softmax_row*> drawn_groups(const softmax_report& report) {
  std::vector<const softmax_row*> rows;
  for (std::size_t i = has_both_kinds(report) ? 1 : 0; i < report.groups.size(); ++i) rows.push_back(&report.groups[i]);
  return rows;
}

std::string group_words(const softmax_report& report, const softmax_row& group) {
  return std::string(has_both_kinds(report) ? group.rope ? "RoPE: " : "NoPE: " : "") + "mean of " +
         counted(group.heads, "head");
}

/// Mean of f(t + 1) over a bucket's positions t; a query at t sees t + 1 keys.
template <class F>
double over_bucket(const bucket_edges& buckets, index_t b, const F& f) {
  double sum = 0;
  for (index_t t = buckets.start(b); t < buckets.end(b); ++t) sum += f(static_cast<double>(t + 1));
  return sum / static_cast<double>(buckets.end(b) - buckets.start(b));
}

/// A value of each head and group over the context, and `equal_scores`(number of keys), its value for equal scores.
template <class Value, class Equal>
line_figure over_context(const std::string& model, const softmax_report& report, const char* title, const char* y,
                         const Value& value, const Equal& equal_scores) {
  line_figure f;
  set_positions(f, report.buckets, report.buckets.edges().back());
  for (const auto* group : drawn_groups(report)) {
    line_figure::group g{group_words(report, *group), group->rope ? rope_colour : nope_colour, {}, {}, {}};
    for (const auto& head : report.heads) {
      if (has_both_kinds(report) && head.rope != group->rope) continue;
      std::vector<double> trace;
      for (const auto& m : head.buckets) trace.push_back(value(m).value);
      g.traces.push_back(std::move(trace));
    }
    for (const auto& m : group->buckets) {
      g.mean.push_back(value(m).value);
      g.error.push_back(half_width(value(m)));
    }
    f.groups.push_back(std::move(g));
  }
  line_figure::group uniform{"equal scores", palette::grey, {}, {}, {}, true};
  for (index_t b = 0; b < report.buckets.count(); ++b)
    uniform.mean.push_back(over_bucket(report.buckets, b, equal_scores));
  f.groups.push_back(std::move(uniform));
  f.text = {title, model + "; mean over the queries of a bucket; " + heads_words(f) + ", band: 95 % interval",
            "query position (tokens, K = 1024)", y};
  return f;
}

std::string with_error(const estimate& e, int digits = 3) {
  if (!std::isfinite(e.error)) return fixed(e.value, digits);
  return fixed(e.value, digits) + " ± " + fixed(e.error, decimals_of_error(e.error, digits, 2));
}
std::string share_text(const estimate& e) { return with_error({100 * e.value, 100 * e.error}, 2); }

}  // namespace

line_figure sink_figure(const std::string& model, const softmax_report& report) {
  auto f = over_context(
      model, report, "Attention mass on the first token", "share of the attention",
      [](const softmax_means& m) { return m.first[0]; }, [](double keys) { return 1 / keys; });
  double least = 0.1;
  for (const auto& g : f.groups) {
    const auto look = [&](const std::vector<double>& values) {
      for (const double v : values)
        if (v > 0) least = std::min(least, v);
    };
    look(g.mean);
    for (const auto& trace : g.traces) look(trace);
  }
  f.log_y = true;
  f.y_low = std::pow(10, std::floor(std::log10(least)));
  return f;
}

line_figure entropy_figure(const std::string& model, const softmax_report& report) {
  auto f = over_context(
      model, report, "Entropy of the attention", "entropy (nats)", [](const softmax_means& m) { return m.entropy; },
      [](double keys) { return std::log(keys); });
  f.y_high = std::ceil(std::log(f.x_end));
  return f;
}

step_figure distance_figure(const std::string& model, const softmax_report& report) {
  constexpr double shown_first = 0.02;  // share of the attention above which the first token bends the curve
  step_figure f;
  f.text = {"How far back the attention goes",
            model + "; first token: " + significant(100 * report.groups[0].overall.first[0].value, 2) +
                " % of the attention; mean over heads and all queries, bars: 95 % intervals over documents",
            "distance from query to key (tokens, K = 1024)", "share of the attention"};
  for (index_t d = 0; d < report.distances.count(); ++d) {
    const index_t start = report.distances.start(d), end = report.distances.end(d);
    const auto label = [](index_t n) { return style::token_label(static_cast<double>(n)); };
    f.steps.push_back(label(start) + (d < 2 ? "" : "-" + label(start < 1024 ? end - 1 : end)));
  }
  for (const auto* group : drawn_groups(report)) {
    step_figure::series s{group_words(report, *group), group->rope ? rope_colour : nope_colour, {}, {}};
    for (const auto& mass : group->overall.distance) s.add(mass.value, half_width(mass));
    f.lines.push_back(std::move(s));
    if (group->overall.first[0].value < shown_first) continue;
    step_figure::series rest{"from " + std::to_string(report.buckets.end(0)) + " on, without the first token",
                             f.lines.back().line,
                             {},
                             {},
                             true};
    for (const auto& mass : group->overall.distance_rest) rest.add(mass.value, half_width(mass));
    f.lines.push_back(std::move(rest));
  }
  f.y_low = 0;
  return f;
}

line_figure loss_figure(const std::string& model, const loss_report& report) {
  line_figure f;
  f.text = {"Loss along the context", model + "; -ln p of the next token; band: 95 % interval over documents",
            "position that it is predicted from (tokens, K = 1024)", "nats per token"};
  set_positions(f, report.buckets, report.buckets.edges().back());
  line_figure::group g{
      "mean of " + grouped(static_cast<long long>(report.all_tokens)) + " tokens", palette::black, {}, {}, {}};
  double low = INFINITY, high = -INFINITY;
  for (index_t b = 0; b < report.buckets.count(); ++b) {
    const auto& loss = report.loss[b];
    g.mean.push_back(loss.value);
    g.error.push_back(half_width(loss));
    const double band = std::isfinite(loss.error) ? half_width(loss) : 0;
    if (std::isfinite(loss.value)) low = std::min(low, loss.value - band), high = std::max(high, loss.value + band);
  }
  f.groups.push_back(std::move(g));
  if (low <= high) f.y_low = std::floor(10 * low) / 10, f.y_high = std::ceil(10 * high + 1e-9) / 10;
  if (!(f.y_high > f.y_low)) f.y_high = f.y_low + 0.1;
  return f;
}

forward_statistics statistics_of(const analysed& a) { return {softmax_of(*a.source), loss_of(*a.source)}; }

void write_statistics(output_folder& out, const analysed& a, const forward_statistics& found) {
  const std::string& model = a.report.model;
  if (found.softmax) {
    out.write("softmax.csv", softmax_table(*found.softmax));
    out.write("softmax_distance.csv", softmax_distance_table(*found.softmax));
    draw(sink_figure(model, *found.softmax), out.figure("softmax_first"));
    draw(entropy_figure(model, *found.softmax), out.figure("softmax_entropy"));
    draw(distance_figure(model, *found.softmax), out.figure("softmax_distance"));
  }
  if (found.loss) {
    out.write("loss.csv", loss_table(*found.loss));
    draw(loss_figure(model, *found.loss), out.figure("loss"));
  }
}

void print_statistics(printer& out, const forward_statistics& found) {
  if (found.softmax) {
    const auto& groups = found.softmax->groups;
    out.heading("What the softmax sees: mean over heads and queries ± standard error over documents");
    out.line("  Shares of the attention on a document's first and last tokens, the query's own among the last.\n");
    table t({"", ""}, {"overall", "first 20 %", "last 20 %"});
    const auto rows = [&](const std::string& name, const auto& cell) {
      for (const auto& g : groups)
        t.row(
            {&g == &groups[0] ? name : "", words_for_heads(g.group), cell(g.overall), cell(g.first20), cell(g.last20)});
    };
    rows("first token, %", [](const softmax_means& m) { return share_text(m.first[0]); });
    t.rule();
    rows("first " + std::to_string(first_tokens[2]) + ", %",
         [](const softmax_means& m) { return share_text(m.first[2]); });
    t.rule();
    rows("last " + std::to_string(near_tokens) + ", %", [](const softmax_means& m) { return share_text(m.near); });
    t.rule();
    rows("entropy, nats", [](const softmax_means& m) { return with_error(m.entropy); });
    out.print(t);
  }
  if (found.loss) {
    const auto& l = *found.loss;
    out.heading("Loss of the next token: nats ± standard error over documents");
    out.line("  " + with_error(l.overall) + " over " + grouped(static_cast<long long>(l.all_tokens)) + " tokens; " +
             with_error(l.first20) + " in the buckets of the first 20 % of the context, " + with_error(l.last20) +
             " in those of the last");
  }
}

}  // namespace qkgeom::examples
