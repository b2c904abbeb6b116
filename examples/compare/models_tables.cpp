// SPDX-License-Identifier: MIT
// Tables of several models side by side.
#include <cmath>

#include "examples/common/numbers/learned.hpp"
#include "examples/compare/models.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/notes.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples {
namespace {

/// positions.csv: a row per model, group and stretch of the context, tokens; plasticity is empty where no query bucket
/// has its middle there.
void write_positions_csv(const std::filesystem::path& path, const std::vector<compared_model>& models) {
  csv_writer csv(path,
                 {"model", "group", "kind", "start", "end", "plasticity", "plasticity_error", "plasticity_head_error"});
  for (const auto& m : models)
    for (const auto& g : m.groups)
      for (const auto& b : g.bins) {
        const auto e = b.plasticity.estimate();
        csv.row(m.label, g.name, b.kind, b.start, b.end, e.value, e.error, e.head_error);
      }
  csv.commit();
}

/// model_components.csv: a row per model, group and principal component, from 0.
void write_model_components_csv(const std::filesystem::path& path, const std::vector<compared_model>& models) {
  std::vector<std::string> names{"model", "group", "pc"};
  for (const char* what : {"abs_r_q", "abs_r_k", "explained_variance"}) add_head_estimate_names(names, what);
  csv_writer csv(path, names);
  for (const auto& m : models)
    for (const auto& g : m.groups)
      for (std::size_t j = 0; j < g.components.size(); ++j) {
        const auto& c = g.components[j];
        csv.add(m.label).add(g.name).add(j);
        for (const auto* n : {&c.abs_r_q, &c.abs_r_k, &c.explained_variance}) add_estimate(csv, n->estimate());
        csv.end_row();
      }
  csv.commit();
}

/// differences.csv: for pairs (a, b) of models by index, a row per group that both have and a number: a's, b's, a - b.
void write_differences_csv(const std::filesystem::path& path, const std::vector<compared_model>& models,
                           const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  csv_writer csv(path, {"model", "less", "group", "number", "model_value", "less_value", "difference",
                        "difference_error", "difference_head_error", "ratio", "paired"});
  for (const auto& [i, j] : pairs) {
    const auto &a = models.at(i), &b = models.at(j);
    const bool paired = same_documents(a, b);
    for (const auto& of_a : a.groups) {
      const auto* of_b = b.group(of_a.name);
      if (!of_b) continue;
      const auto x = numbers_to_compare(of_a), y = numbers_to_compare(*of_b);
      for (std::size_t n = 0; n < x.size(); ++n) {
        const auto d = difference_of(x[n], y[n], paired);
        csv.row(a.label, b.label, of_a.name, x[n].name, x[n].value, y[n].value, d.value, d.error, d.head_error,
                x[n].value / y[n].value, paired);
      }
    }
  }
  csv.commit();
}

/// rope_nope.csv: of every model with both kinds of layer, each number over RoPE heads minus that over NoPE heads.
void write_rope_nope_csv(const std::filesystem::path& path, const std::vector<compared_model>& models) {
  csv_writer csv(path, {"model", "number", "rope", "nope", "difference", "difference_error", "difference_head_error"});
  for (const auto& m : models) {
    const auto *rope = m.group("rope"), *nope = m.group("nope");
    if (!rope || !nope) continue;
    const auto x = numbers_to_compare(*rope), y = numbers_to_compare(*nope);
    for (std::size_t n = 0; n < x.size(); ++n) {
      const auto d = difference_of(x[n], y[n], true);
      csv.row(m.label, x[n].name, x[n].value, y[n].value, d.value, d.error, d.head_error);
    }
  }
  csv.commit();
}

/// scores.csv: a row per score, headline number and coefficient, over the models that have both.
void write_scores(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices) {
  csv_writer csv(out.table("scores.csv"),
                 {"score", "number", "kind", "n", "estimate", "p", "p_standard_error", "orders", "low", "high",
                  "leave_one_out_low", "without_low", "leave_one_out_high", "without_high"});
  for (const auto& score : choices.scores)
    for (const auto& number : models.at(0).groups.at(0).numbers) {
      const auto r = rows_with(models, number.name, score);
      if (r.x.size() < 3) continue;
      for (const auto kind : {association::pearson, association::spearman, association::kendall}) {
        const auto test = test_association(kind, r.x, r.y, {.seed = choices.seed});
        const auto interval = bootstrap_association(kind, r.x, r.y, {.seed = choices.seed});
        const auto range = leave_one_out(kind, r.x, r.y);
        const auto label = [&](std::size_t row) { return std::isnan(range.low) ? std::string() : r.labels[row]; };
        csv.row(score.name, number.name, name_of(kind), test.n, test.estimate, test.p, test.standard_error,
                test.arrangements, interval.low, interval.high, range.low, label(range.low_without), range.high,
                label(range.high_without));
      }
    }
  csv.commit();
}

void write_decomposition(csv_writer& csv, const std::string& x, const std::string& y, const char* rows,
                         const family_decomposition& d) {
  const auto part = [&](const std::string& name, const std::string& family, const slope_and_correlation& s) {
    csv.row(x, y, rows, name, family, s.n, s.correlation, s.slope, d.reverses());
  };
  part("pooled", "", d.pooled);
  part("within", "", d.within);
  part("between", "", d.between);
  for (const auto& f : d.families) part("family", f.name, f.inside);
}

/// families.csv: associations over all rows, within families and between family means. Rows are heads, or models.
void write_families(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices) {
  csv_writer csv(out.table("families.csv"), {"x", "y", "rows", "part", "family", "n", "pearson", "slope", "reverses"});
  std::vector<double> separation, token, context;
  std::vector<std::string> families;
  for (const auto& m : models)
    for (const auto& h : m.heads) {
      separation.push_back(h.separation_strength);
      token.push_back(h.bias_strength);
      context.push_back(h.bias_context);
      families.push_back(m.family);
    }
  write_decomposition(csv, "separation_strength", "bias_strength", "heads",
                      decompose_by_family(separation, token, families));
  write_decomposition(csv, "separation_strength", "bias_context", "heads",
                      decompose_by_family(separation, context, families));
  std::vector<model_score> targets = choices.scores;
  targets.push_back({"ap_drop", {}});
  for (const auto& m : models) targets.back().value.push_back(m.groups[0].number("ap_drop").value);
  for (const auto& target : targets)
    for (const auto& number : models.at(0).groups.at(0).numbers) {
      if (number.name == target.name) continue;
      const auto r = rows_with(models, number.name, target);
      if (r.x.size() >= 3)
        write_decomposition(csv, number.name, target.name, "models", decompose_by_family(r.x, r.y, r.families));
    }
  csv.commit();
}

}  // namespace

void write_models(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices) {
  std::vector<std::pair<std::string, std::vector<report_note>>> notes;
  for (const auto& m : models) notes.emplace_back(m.label, m.notes);
  notes.emplace_back("", notes_of(models));
  write_csv(out.table("notes.csv"), notes_table(notes));
  write_models_csv(out.table("models.csv"), models);
  write_positions_csv(out.table("positions.csv"), models);
  write_model_components_csv(out.table("model_components.csv"), models);
  write_differences_csv(out.table("differences.csv"), models, choices.pairs);
  write_rope_nope_csv(out.table("rope_nope.csv"), models);
  write_families(out, models, choices);
  if (!choices.scores.empty()) write_scores(out, models, choices);
  if (const auto learned = learned_of(models); !learned.empty()) write_learned_csv(out.table("learned.csv"), learned);
  draw_models(out, models, choices);
}

}  // namespace qkgeom::examples
