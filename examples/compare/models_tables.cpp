// SPDX-License-Identifier: MIT
// Tables of several models side by side.
#include "examples/common/numbers/associations.hpp"
#include "examples/common/numbers/learned.hpp"
#include "examples/compare/models.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/notes.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples {
namespace {

/// A row of a group of heads, the i-th.
struct group_row {
  const compared_model* model;
  const compared_group* group;
  std::size_t i;
};

table_columns<group_row> group_columns() {
  table_columns<group_row> c;
  c.of(&group_row::model).add("model", "label of the model", &compared_model::label);
  c.of(&group_row::group).add("group", group_meaning, &compared_group::name);
  return c;
}

void write_positions(output_folder& out, const std::vector<compared_model>& models) {
  auto c = group_columns();
  const auto bin = c.of([](const group_row& r) { return &r.group->bins[r.i]; });
  bin.add("kind", "`quintile`, `decile`, `length` as in bins.csv; `tokens`: the stretches of `--bins`",
          &compared_bin::kind);
  add_stretch(c, "stretch", bin.part);
  bin.add("plasticity", "mean over heads; empty where no query bucket has its middle in the stretch",
          [](auto& b) { return b.plasticity.estimate(); });
  out.write("positions.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& m : models)
      for (const auto& g : m.groups)
        for (std::size_t i = 0; i < g.bins.size(); ++i) f(group_row{&m, &g, i});
  }));
}

void write_model_components(output_folder& out, const std::vector<compared_model>& models) {
  auto c = group_columns();
  c.add("pc", "principal component, from 0", &group_row::i);
  const auto add = [&](const char* name, const char* meaning, group_number compared_component::*number) {
    c.add(name, meaning, [number](auto& r) { return (r.group->components[r.i].*number).estimate(); });
  };
  add("abs_r_q", "mean over heads of abs(correlation of queries with position)", &compared_component::abs_r_q);
  add("abs_r_k", "mean over heads of abs(correlation of keys with position)", &compared_component::abs_r_k);
  add("explained_variance", "mean share of the pooled variance", &compared_component::explained_variance);
  out.write("model_components.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& m : models)
      for (const auto& g : m.groups)
        for (std::size_t j = 0; j < g.components.size(); ++j) f(group_row{&m, &g, j});
  }));
}

/// For pairs (a, b) of models by index, a row per group that both have and a number.
void write_differences(output_folder& out, const std::vector<compared_model>& models,
                       const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  struct row {
    const compared_model *a, *b;
    const group_number *x, *y;
    std::string group;
    bool paired;
  };
  table_columns<row> c;
  c.of(&row::a).add("model", "label of model A", &compared_model::label);
  c.of(&row::b).add("less", "label of model B", &compared_model::label);
  c.add("group", group_meaning, &row::group);
  c.of(&row::x).add("number", "name of a number of models.csv; `quintile_1`, ..., `decile_10` of each model's context",
                    &group_number::name);
  c.of(&row::x).add("model_value", "value of A", &group_number::value);
  c.of(&row::y).add("less_value", "value of B", &group_number::value);
  c.add("difference", "value of A less that of B", [](auto& r) { return difference_of(*r.x, *r.y, r.paired); });
  c.add("ratio", "value of A over that of B", [](auto& r) { return r.x->value / r.y->value; });
  c.add("paired", "1: both are of the same documents, and errors leave the same one out of both; 0: independent",
        &row::paired);
  out.write("differences.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& [i, j] : pairs)
      for (const auto& group : models.at(i).groups) {
        const auto &a = models[i], &b = models.at(j);
        const auto* other = b.group(group.name);
        if (!other) continue;
        const auto x = numbers_to_compare(group), y = numbers_to_compare(*other);
        for (std::size_t n = 0; n < x.size(); ++n) f(row{&a, &b, &x[n], &y[n], group.name, same_documents(a, b)});
      }
  }));
}

void write_rope_nope(output_folder& out, const std::vector<compared_model>& models) {
  struct row {
    const compared_model* model;
    const group_number *rope, *nope;
  };
  table_columns<row> c;
  c.of(&row::model).add("model", "label of the model", &compared_model::label);
  c.of(&row::rope).add("number", "name of the number, as in differences.csv", &group_number::name);
  c.of(&row::rope).add("rope", "value over RoPE heads", &group_number::value);
  c.of(&row::nope).add("nope", "value over NoPE heads", &group_number::value);
  c.add("difference", "rope less nope", [](auto& r) { return difference_of(*r.rope, *r.nope, true); });
  out.write("rope_nope.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& m : models) {
      const auto *rope = m.group("rope"), *nope = m.group("nope");
      if (!rope || !nope) continue;
      const auto x = numbers_to_compare(*rope), y = numbers_to_compare(*nope);
      for (std::size_t n = 0; n < x.size(); ++n) f(row{&m, &x[n], &y[n]});
    }
  }));
}

/// A row per score, headline number and coefficient, over the models that have both.
void write_scores(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices) {
  table_columns<score_association> c;
  c.add("score", "column of the file of scores", &score_association::score);
  c.add("number", "name of a number of models.csv, of all heads", &score_association::number);
  add_association(c);
  out.write("scores.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& score : choices.scores)
      for (const auto& number : models.at(0).groups.at(0).numbers) {
        const auto r = rows_with(models, number.name, score);
        if (r.x.size() < 3) continue;
        for (const auto& a : associations_of(number.name, score.name, r.x, r.y, r.labels, choices.seed)) f(a);
      }
  }));
}

/// Associations over all rows, within families and between family means. Rows are heads, or models.
void write_families(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices) {
  struct row {
    std::string x, y;
    const char *rows, *part;
    std::string family;
    const slope_and_correlation* of;
    bool reverses;
  };
  table_columns<row> c;
  c.add("x", "name of a number of heads.csv; for models of models.csv", &row::x);
  c.add("y", "name of a number of heads.csv; for models a score or `ap_drop`", &row::y);
  c.add("rows", "`heads`: every head of every model; `models`", &row::rows);
  c.add("part", "`pooled`; `within`: deviations from the families' means; `between`: these means; `family`: inside one",
        &row::part);
  c.add("family", "family of the rows of the part `family`", &row::family);
  c.of(&row::of)
      .add("n", "number of rows", &slope_and_correlation::n)
      .add("pearson", "Pearson's r", &slope_and_correlation::correlation)
      .add("slope", "slope of y against x", &slope_and_correlation::slope);
  c.add("reverses", "1: `pooled` and `within` differ in sign", &row::reverses);
  out.write("families.csv", std::move(c).with_rows([&](const auto& f) {
    const auto parts = [&](const std::string& x, const std::string& y, const char* rows,
                           const family_decomposition& d) {
      const bool reverses = d.reverses();
      f(row{x, y, rows, "pooled", "", &d.pooled, reverses});
      f(row{x, y, rows, "within", "", &d.within, reverses});
      f(row{x, y, rows, "between", "", &d.between, reverses});
      for (const auto& one : d.families) f(row{x, y, rows, "family", one.name, &one.inside, reverses});
    };
    std::vector<double> separation, token, context;
    std::vector<std::string> families;
    for (const auto& m : models)
      for (const auto& h : m.heads) {
        separation.push_back(h.separation_strength);
        token.push_back(h.bias_strength);
        context.push_back(h.bias_context);
        families.push_back(m.family);
      }
    parts("separation_strength", "bias_strength", "heads", decompose_by_family(separation, token, families));
    parts("separation_strength", "bias_context", "heads", decompose_by_family(separation, context, families));
    std::vector<model_score> targets = choices.scores;
    targets.push_back({"ap_drop", {}});
    for (const auto& m : models) targets.back().value.push_back(m.groups[0].number("ap_drop").value);
    for (const auto& target : targets)
      for (const auto& number : models.at(0).groups.at(0).numbers) {
        if (number.name == target.name) continue;
        const auto r = rows_with(models, number.name, target);
        if (r.x.size() >= 3) parts(number.name, target.name, "models", decompose_by_family(r.x, r.y, r.families));
      }
  }));
}

}  // namespace

void write_models(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices) {
  std::vector<std::pair<std::string, std::vector<report_note>>> notes;
  for (const auto& m : models) notes.emplace_back(m.label, m.notes);
  notes.emplace_back("", notes_of(models));
  out.write("notes.csv", notes_table(notes));
  out.write("models.csv", models_table(models));
  write_positions(out, models);
  write_model_components(out, models);
  write_differences(out, models, choices.pairs);
  write_rope_nope(out, models);
  write_families(out, models, choices);
  if (!choices.scores.empty()) write_scores(out, models, choices);
  if (const auto learned = learned_of(models); !learned.empty()) out.write("learned.csv", learned_table(learned));
  draw_models(out, models, choices);
}

}  // namespace qkgeom::examples
