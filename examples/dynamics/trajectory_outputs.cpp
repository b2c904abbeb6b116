// SPDX-License-Identifier: MIT
// What is drawn and printed of a training trajectory.
#include "examples/dynamics/trajectory.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

const std::string bars_of_documents = "; bars: 95 % intervals over documents";

/// One column's statistic over some heads, with bars of its 95 % interval. All checkpoints have the same heads
/// (`check_comparable`).
step_figure::series series_of(const std::vector<trajectory_point>& points, const std::string& column,
                              const std::vector<std::size_t>& heads, head_statistic statistic, step_figure::series s) {
  for (const auto& p : points) {
    const auto e = over_heads(p.column(column), heads, statistic);
    s.add(e.value, half_width(e));
  }
  return s;
}

/// A line per head group.
void add_groups(step_figure& f, const std::vector<trajectory_point>& points, const std::string& column,
                head_statistic statistic) {
  for (const auto& g : head_groups(points[0].heads)) {
    const colour line = g.name == "all" ? palette::black : g.name == "rope" ? palette::blue : palette::vermilion;
    f.lines.push_back(series_of(points, column, g.heads, statistic, {words_for_heads(g), line, {}, {}}));
  }
}

struct column_line {
  const char *column, *name;
  colour line;
  bool dashed;
};

/// A line per column, over all heads.
void add_columns(step_figure& f, const std::vector<trajectory_point>& points, head_statistic statistic,
                 const std::vector<column_line>& lines) {
  for (const auto& l : lines)
    f.lines.push_back(
        series_of(points, l.column, every_head(points[0].heads), statistic, {l.name, l.line, {}, {}, l.dashed}));
}

step_figure figure_of(const std::vector<trajectory_point>& points, figure_text text) {
  step_figure f;
  f.text = std::move(text);
  for (const auto& p : points) f.steps.push_back(p.label);
  return f;
}

/// Mean |bias strength| over heads, RoPE and NoPE apart, in one of its units.
step_figure bias_figure(const std::vector<trajectory_point>& points, const std::string& column) {
  const std::string unit = column == "bias_strength_logits"  ? "per token"
                           : column == "bias_context_logits" ? "over the whole context"
                                                             : "over the context, in sd of score differences";
  auto f = figure_of(points, {"Positional bias along training, " + unit,
                              "mean over heads of |" + column + "|" + bars_of_documents, "", "mean |" + column + "|"});
  f.log_y = true;
  add_groups(f, points, column, head_statistic::mean_abs);
  return f;
}

/// Mean |bias| and its factors, relative to the first checkpoint.
step_figure bias_factor_figure(const std::vector<trajectory_point>& points) {
  auto f =
      figure_of(points, {"What moves the bias: factors of mean |bias| against the first checkpoint",
                         "all heads; mean |bias| = mean |mu_Q^a| x mean |alpha_K| x covariance" + bars_of_documents, "",
                         "times the first checkpoint"});
  f.log_y = true;
  f.lines = {{"bias per token", palette::black, {}, {}},         {"mu_Q^a", palette::green, {}, {}},
             {"alpha_K per token", palette::blue, {}, {}},       {"covariance", palette::orange, {}, {}},
             {"bias per context", palette::black, {}, {}, true}, {"alpha_K per context", palette::blue, {}, {}, true}};
  const auto group = every_head(points[0].heads);
  for (const auto& p : points) {
    const auto token = split_bias(points[0], p, group, true, false),
               context = split_bias(points[0], p, group, true, true);
    const head_estimate* const values[] = {&token.bias,       &token.mu,     &token.alpha,
                                           &token.covariance, &context.bias, &context.alpha};
    for (std::size_t i = 0; i < 6; ++i)
      f.lines[i].add(std::exp(values[i]->value), half_width(*values[i]) * std::exp(values[i]->value));
  }
  return f;
}

step_figure correlation_figure(const std::vector<trajectory_point>& points) {
  auto f = figure_of(points, {"How far queries and keys follow position",
                              "mean over all heads of |r|; solid: PCA component 0, dashed: axis a" + bars_of_documents,
                              "", "mean |correlation with position|"});
  add_columns(f, points, head_statistic::mean_abs,
              {{"r_q_pc0", "queries, component 0", palette::blue, false},
               {"r_k_pc0", "keys, component 0", palette::orange, false},
               {"r_q_a", "queries, axis a", palette::blue, true},
               {"r_k_a", "keys, axis a", palette::orange, true}});
  f.y_low = 0;
  f.y_high = 1;
  return f;
}

share_figure class_share_figure(const std::vector<trajectory_point>& points) {
  share_figure f;
  f.text = {"Head classes along training", counted(points[0].heads.size(), "head") + ", PCA component 0", "",
            "share of heads"};
  for (const auto& p : points) f.steps.push_back(p.label);
  for (const head_class c : all_head_classes) {
    share_figure::part part{class_words(c), class_colour(c), {}};
    for (const auto& p : points) part.share.push_back(class_share(p, every_head(p.heads), c).value);
    f.parts.push_back(std::move(part));
  }
  return f;
}

/// AP overall, over the first and the last fifth of the context, and under the observed queries.
step_figure plasticity_figure(const std::vector<trajectory_point>& points, const std::string& model) {
  auto f = figure_of(points, {"Plasticity along training",
                              "mean over all heads, " + model + " query model" + bars_of_documents, "", "plasticity"});
  add_columns(f, points, head_statistic::mean,
              {{"ap_first_20pct", "first 20 % of the context", palette::sky, false},
               {"ap_overall", "whole context", palette::black, false},
               {"ap_last_20pct", "last 20 %", palette::purple, false},
               {"ap_empirical_unbiased", "whole, observed queries", palette::black, true}});
  f.y_low = 0;
  f.y_high = 1;
  return f;
}

step_figure drop_figure(const std::vector<trajectory_point>& points, const std::string& model) {
  auto f = figure_of(points, {"AP_drop along training: first less last fifth of the context",
                              "mean over heads, " + model + " query model" + bars_of_documents, "", "AP_drop"});
  add_groups(f, points, "ap_drop", head_statistic::mean);
  return f;
}

void print_trajectory(printer& out, const std::vector<trajectory_point>& points, const std::string& model) {
  const auto group = every_head(points[0].heads);
  out.heading("Means over " + counted(group.size(), "head") + " ± standard error over documents; bias in logits");
  table t({"checkpoint"}, {"context", "held-out loss", "|bias| per token", "|bias| × context", "... in sd",
                           "|alpha_k| per context", "|r_k| axis a"});
  std::vector<std::string> ap_columns{"AP overall", "observed", "first 20 %", "last 20 %"};
  const auto groups = head_groups(points[0].heads);
  for (const auto& g : groups) ap_columns.push_back("drop, " + words_for_heads(g.name));
  table ap({"checkpoint"}, ap_columns);
  for (const auto& p : points) {
    const auto text = [&](const char* column, head_statistic s) {
      return with_error(over_heads(p.column(column), group, s));
    };
    const auto abs = head_statistic::mean_abs, mean = head_statistic::mean;
    t.row({p.label, grouped(p.context_length), p.heldout_loss ? fixed(*p.heldout_loss, 3) : "-",
           text("bias_strength_logits", abs), text("bias_context_logits", abs), text("bias_context_in_sd", abs),
           text("alpha_k_context", abs), text("r_k_a", abs)});
    std::vector<std::string> row{p.label, text("ap_overall", mean), text("ap_empirical_unbiased", mean),
                                 text("ap_first_20pct", mean), text("ap_last_20pct", mean)};
    for (const auto& g : groups) row.push_back(with_error(over_heads(p.column("ap_drop"), g.heads, mean)));
    ap.row(std::move(row));
  }
  out.print(t);
  out.heading("Attention plasticity, " + model + " query model; observed: without a model");
  out.print(ap);
}

void print_splits(printer& out, const std::vector<trajectory_point>& points) {
  out.heading("Change of log mean |bias|, and the parts it is the sum of");
  table t({"from", "to"},
          {"bias per token", "bias per context", "mu_Q^a", "alpha_K per token", "alpha_K per context", "covariance"});
  const auto group = every_head(points[0].heads);
  const auto steps = checkpoint_steps(points);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i + 1 == points.size()) t.rule();
    const auto &from = points[steps[i].first], &to = points[steps[i].second];
    const auto token = split_bias(from, to, group, true, false), context = split_bias(from, to, group, true, true);
    t.row({from.label, to.label, with_error(token.bias, true), with_error(context.bias, true),
           with_error(token.mu, true), with_error(token.alpha, true), with_error(context.alpha, true),
           with_error(token.covariance, true)});
  }
  out.print(t);
}

void print_class_changes(printer& out, const std::vector<trajectory_point>& points) {
  const auto group = every_head(points[0].heads);
  out.heading("Head classes");
  std::vector<std::string> columns;
  for (const head_class c : all_head_classes) columns.push_back(class_words(c));
  columns.push_back("changed class since the one above");
  table t({"checkpoint"}, columns);
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<std::string> row{points[i].label};
    for (const head_class c : all_head_classes) {
      const auto share = class_share(points[i], group, c).estimate();
      row.push_back(percent(share.value) +
                    (std::isfinite(share.error) ? " ± " + fixed(100 * share.error, 0) : std::string()));
    }
    index_t moved = 0;
    if (i > 0)
      for (const auto& m : class_transitions(points[i - 1], points[i], group)) moved += m.from != m.to ? m.heads : 0;
    row.push_back(i > 0 ? grouped(moved) : "");
    t.row(row);
  }
  out.print(t);
}

}  // namespace

std::map<std::string, double> read_losses(const std::filesystem::path& path, const std::vector<std::string>& labels) {
  const auto file = read_csv(path);
  const auto& names = file.column("checkpoint");
  const auto values = file.numbers("heldout_loss");
  std::map<std::string, double> losses;
  bool known = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    known |= std::find(labels.begin(), labels.end(), names[i]) != labels.end();
    if (std::isnan(values[i])) continue;
    require(losses.emplace(names[i], values[i]).second, path.string(), ": checkpoint ", printable(names[i]),
            " is there twice");
  }
  require(known, path.string(), ": none of the checkpoints is there, the first is ", labels.at(0));
  return losses;
}

void write_dynamics(output_folder& out, const std::vector<trajectory_point>& points, const std::string& model) {
  out.write("trajectory.csv", trajectory_table(points));
  out.write("transitions.csv", transitions_table(points));
  out.write("bias_split.csv", bias_split_table(points));
  draw(bias_figure(points, "bias_strength_logits"), out.figure("bias_token"));
  draw(bias_figure(points, "bias_context_logits"), out.figure("bias_context"));
  draw(bias_figure(points, "bias_context_in_sd"), out.figure("bias_in_sd"));
  draw(bias_factor_figure(points), out.figure("bias_factors"));
  draw(correlation_figure(points), out.figure("correlation"));
  draw(class_share_figure(points), out.figure("class_shares"));
  draw(plasticity_figure(points, model), out.figure("plasticity"));
  draw(drop_figure(points, model), out.figure("ap_drop"));
}

void print_dynamics(printer& out, const std::vector<trajectory_point>& points, const std::string& model) {
  print_trajectory(out, points, model);
  print_splits(out, points);
  print_class_changes(out, points);
}

}  // namespace qkgeom::examples
