// SPDX-License-Identifier: MIT
// Figures of a training trajectory.
#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/dynamics/trajectory.hpp"
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

}  // namespace

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

}  // namespace qkgeom::examples
