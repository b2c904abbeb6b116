// SPDX-License-Identifier: MIT
#include "examples/dynamics/trajectory.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_groups.hpp"

namespace qkgeom::examples {
namespace {

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
