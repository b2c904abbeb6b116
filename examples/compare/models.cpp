// SPDX-License-Identifier: MIT
#include "examples/compare/models.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/numbers/learned.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples {

scored_rows rows_with(const std::vector<compared_model>& models, const std::string& number, const model_score& score) {
  scored_rows r;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const double x = models[i].groups[0].number(number).value;
    if (std::isnan(x) || std::isnan(score.value[i])) continue;
    r.x.push_back(x);
    r.y.push_back(score.value[i]);
    r.labels.push_back(models[i].label);
    r.families.push_back(models[i].family);
  }
  return r;
}

namespace {

void print_headlines(printer& out, const std::vector<compared_model>& models, const std::string& query_model) {
  out.heading("Means over all heads ± standard error over documents; " + query_model + " query model");
  table ap({"model", "family"},
           {"heads", "documents", "context", "bucket", "AP overall", "observed", "first 20 %", "last 20 %", "drop"});
  table bias({"model"}, {"|r_q| comp. 0", "|r_k| comp. 0", "|r_q| axis a", "|r_k| axis a", "|bias| per token",
                         "|bias| × context", "... in sd", "bias > 0", "position-dominated"});
  for (const auto& m : models) {
    const auto& g = m.groups.at(0);
    const auto text = [&](const char* number) { return with_error(g.number(number).estimate()); };
    ap.row({m.label, m.family, grouped(g.heads), grouped(m.documents), grouped(m.context_length),
            grouped(m.bucket_size), text("ap_overall"), text("ap_empirical_unbiased"), text("ap_first_20pct"),
            text("ap_last_20pct"), text("ap_drop")});
    bias.row({m.label, text("abs_r_q_pc0"), text("abs_r_k_pc0"), text("abs_r_q_a"), text("abs_r_k_a"),
              text("abs_bias_strength_logits"), text("abs_bias_context_logits"), text("abs_bias_context_in_sd"),
              percent(g.number("share_positive_bias").value), percent(g.number("share_position_dominated").value)});
  }
  out.print(ap);
  out.heading("Position-bias geometry; bias in logits");
  out.print(bias);
}

void print_quintiles(printer& out, const std::vector<compared_model>& models) {
  out.heading("Plasticity by fifth of each model's context");
  table t({"model"}, {"0-20 %", "20-40 %", "40-60 %", "60-80 %", "80-100 %"});
  for (const auto& m : models) {
    std::vector<std::string> row{m.label};
    for (const auto& b : m.groups[0].bins)
      if (b.kind == "quintile") row.push_back(with_error(b.plasticity.estimate()));
    t.row(row);
  }
  out.print(t);
}

/// Numbers whose differences are printed, with their headers; differences.csv has all.
constexpr const char* differing[] = {
    "ap_overall",        "ap_drop", "ap_last_20pct", "abs_bias_strength_logits", "abs_bias_context_logits",
    "plane_var_fraction"};
const std::vector<std::string> difference_headers{
    "AP overall", "drop", "last 20 %", "|bias| per token", "|bias| × context", "plane's variance"};

std::vector<std::string> difference_row(std::vector<std::string> cells, const compared_group& first,
                                        const compared_group& second, bool paired) {
  for (const char* number : differing)
    cells.push_back(with_error(difference_of(first.number(number), second.number(number), paired), true));
  return cells;
}

void print_differences(printer& out, const std::vector<compared_model>& models,
                       const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  if (pairs.empty()) return;
  table t({"model", "less"}, difference_headers);
  for (const auto& [i, j] : pairs)
    t.row(difference_row({models[i].label, models[j].label}, models[i].groups[0], models[j].groups[0],
                         same_documents(models[i], models[j])));
  out.heading("Differences ± standard error over documents; bias in logits");
  out.print(t);
}

void print_kinds(printer& out, const std::vector<compared_model>& models) {
  table t({"RoPE less NoPE layers"}, difference_headers);
  for (const auto& m : models)
    if (const auto* rope = m.group("rope"), *nope = m.group("nope"); rope && nope)
      t.row(difference_row({m.label}, *rope, *nope, true));
  if (t.rows().empty()) return;
  out.heading("RoPE against NoPE layers of one model");
  out.print(t);
}

void print_scores(printer& out, const std::vector<compared_model>& models, const model_choices& choices) {
  for (const auto& score : choices.scores) {
    table t({score.name}, {"models", "Pearson", "p", "Spearman", "p", "Kendall", "p"});
    for (const char* number : {"ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop", "abs_bias_strength_logits",
                               "abs_bias_context_logits", "abs_r_k_a"}) {
      const auto r = rows_with(models, number, score);
      if (r.x.size() < 3) continue;
      std::vector<std::string> row{number, std::to_string(r.x.size())};
      for (const auto kind : {association::pearson, association::spearman, association::kendall}) {
        const auto test = test_association(kind, r.x, r.y, {.seed = choices.seed});
        row.push_back(signed_fixed(test.estimate));
        row.push_back(significant(test.p, 2));
      }
      t.row(row);
    }
    out.heading("What goes with " + score.name + " over models (permutation p, exact up to nine models)");
    out.print(t);
  }
}

}  // namespace

void print_models(printer& out, const std::vector<compared_model>& models, const model_choices& choices) {
  for (const auto& m : models) print_notes(out, m.notes, m.label);
  print_notes(out, notes_of(models));
  print_headlines(out, models, choices.query_model);
  print_quintiles(out, models);
  print_differences(out, models, choices.pairs);
  print_learned(out, learned_of(models));
  print_kinds(out, models);
  print_scores(out, models, choices);
}

}  // namespace qkgeom::examples
