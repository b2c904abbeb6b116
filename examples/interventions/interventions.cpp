// SPDX-License-Identifier: MIT
// Effects of changed heads on loss and probes, beside the effects of random changes, and predictions held against them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "examples/common/cli.hpp"
#include "examples/common/figures/figure.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/whole_number.hpp"
#include "qkgeom/report/notes.hpp"
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/interval.hpp"
#include "qkgeom/stats/jackknife.hpp"
#include "qkgeom/stats/shape.hpp"

namespace qkgeom::examples {
namespace {

/// Effect of changed heads on one measure: changed model less unchanged model, paired by document or probe. Errors run
/// over these for given random sets; `random_spread` is the standard deviation over the random sets.
struct effect {
  std::string ranking, intervention;
  /// "loss" (nats per token), "copy" or "lookup" (share of the right tokens among those asked for).
  std::string measure;
  /// "all", "near" (first fifth of the context), "far" (last fifth), "far_less_near", or the distance in tokens.
  std::string place;
  std::size_t n = 0;                          ///< documents or probes
  double base = 0;                            ///< of the unchanged model
  estimate chosen{}, random{}, difference{};  ///< difference: chosen less the mean of the random sets
  double random_spread = 0;
};

using key = std::pair<std::string, std::string>;                 // measure, place
using units = std::map<std::string, std::pair<double, double>>;  // document or trial -> sum, weight

struct evaluation_tables {
  std::map<std::string, std::map<key, units>> by_condition;
  std::vector<std::string> conditions;  ///< in the order of the files
  std::vector<key> measures;

  void add(const std::string& condition, const key& what, const std::string& unit, double sum, double weight) {
    if (!by_condition.count(condition)) conditions.push_back(condition);
    auto& measure = by_condition[condition];
    if (condition == "none" && !measure.count(what)) measures.push_back(what);
    auto& u = measure[what][unit];
    u.first += sum;
    u.second += weight;
  }
};

evaluation_tables read_tables(const std::filesystem::path& folder) {
  evaluation_tables t;
  const auto loss = read_csv(folder / "condition_loss.csv");
  const auto start = loss.numbers("start"), end = loss.numbers("end"), tokens = loss.numbers("tokens"),
             value = loss.numbers("loss");
  const double length = end.empty() ? 0 : *std::max_element(end.begin(), end.end());
  for (std::size_t i = 0; i < loss.rows(); ++i) {
    const double middle = 0.5 * (start[i] + end[i]);
    const auto add = [&](const char* place) {
      t.add(loss.column("condition")[i], {"loss", place}, loss.column("document")[i], value[i] * tokens[i], tokens[i]);
    };
    add("all");
    if (middle < 0.2 * length) add("near");
    if (middle >= 0.8 * length) add("far");
  }
  const auto probes = read_csv(folder / "condition_probes.csv");
  const auto asked = probes.numbers("asked"), right = probes.numbers("right");
  for (std::size_t i = 0; i < probes.rows(); ++i)
    t.add(probes.column("condition")[i], {probes.column("probe")[i], probes.column("distance")[i]},
          probes.column("trial")[i], right[i], asked[i]);
  require(t.by_condition.count("none") == 1, folder.string(), ": there is no condition none");
  for (const auto& condition : t.conditions) {
    const auto& found = t.by_condition[condition];
    const auto near = found.find({"loss", "near"}), far = found.find({"loss", "far"});
    if (near == found.end() || far == found.end()) continue;
    const units near_units = near->second, far_units = far->second;
    for (const auto& [unit, x] : far_units)
      if (const auto y = near_units.find(unit); y != near_units.end())
        t.add(condition, {"loss", "far_less_near"}, unit, x.first / x.second - y->second.first / y->second.second, 1);
  }
  return t;
}

/// Each unit's mean under a condition less its mean in the unchanged model.
std::vector<double> shifts(const evaluation_tables& t, const std::string& condition, const key& what,
                           const std::filesystem::path& folder) {
  const auto& base = t.by_condition.at("none").at(what);
  const auto found = t.by_condition.at(condition).find(what);
  require(found != t.by_condition.at(condition).end() && found->second.size() == base.size(), folder.string(),
          ": condition ", condition, " lacks documents or probes of ", what.first, " ", what.second);
  std::vector<double> d;
  for (const auto& [unit, x] : base) {
    const auto& y = found->second.at(unit);
    d.push_back(y.first / y.second - x.first / x.second);
  }
  return d;
}

/// Mean with its jackknife error, which is the standard deviation over the root of the number of values.
estimate mean_of(const std::vector<double>& x) { return ratio_of_sums(x, std::vector<double>(x.size(), 1)); }

/// A column of predictions held against a measure, over conditions.
struct agreement {
  std::string measure, place, column;
  std::size_t conditions = 0;
  estimate rank_correlation{};  ///< of the predictions and the changes; its error is over documents or probes
};

/// Holds columns of a table, with a row for each "condition", against the changes in an evaluation.
std::vector<agreement> read_agreements(const evaluation_tables& t, const std::filesystem::path& folder,
                                       const std::filesystem::path& table, const std::vector<std::string>& columns) {
  const auto csv = read_csv(table);
  const auto& names = csv.column("condition");
  require(std::set(names.begin(), names.end()).size() == names.size(), table.string(),
          ": a condition has several rows");
  std::vector<agreement> found;
  for (const auto& what : t.measures)
    for (const auto& column : columns) {
      const auto values = csv.numbers(column);
      std::vector<double> predicted;
      std::vector<std::vector<double>> changes;  // (conditions)(documents or probes)
      for (std::size_t i = 0; i < values.size(); ++i) {
        require(t.by_condition.count(names[i]) > 0, table.string(), ": ", folder.string(), " has no condition ",
                printable(names[i]));
        if (std::isnan(values[i])) continue;
        predicted.push_back(values[i]);
        changes.push_back(shifts(t, names[i], what, folder));
      }
      require(predicted.size() >= 3, table.string(), ": fewer than three conditions of ", folder.string(),
              " have a value of ", column);
      const auto without = [&](std::size_t left_out) {
        std::vector<double> means;
        for (const auto& x : changes) {
          double sum = 0, n = 0;
          for (std::size_t u = 0; u < x.size(); ++u)
            if (u != left_out) sum += x[u], ++n;
          means.push_back(sum / n);
        }
        return associate(association::spearman, predicted, means);
      };
      const std::size_t n = changes[0].size();
      std::vector<double> each;
      for (std::size_t u = 0; n > 1 && u < n; ++u) each.push_back(without(u));
      auto agreed = jackknife(without(n), each);
      if (agreed.error < 1e-12) agreed = {agreed.value};  // no unit changes a rank, so these say nothing of others
      found.push_back({what.first, what.second, column, predicted.size(), agreed});
    }
  return found;
}

effect effect_of(const evaluation_tables& t, const std::string& ranking, const std::string& intervention,
                 const std::vector<std::string>& random, const key& what, const std::filesystem::path& folder) {
  effect e{ranking, intervention, what.first, what.second};
  const auto& base = t.by_condition.at("none").at(what);
  e.n = base.size();
  for (const auto& [unit, x] : base) e.base += x.first / x.second / static_cast<double>(e.n);
  auto difference = shifts(t, ranking + "/chosen/" + intervention, what, folder);
  e.chosen = mean_of(difference);
  std::vector<double> mean(e.n), sets;
  for (const auto& condition : random) {
    const auto d = shifts(t, condition, what, folder);
    sets.push_back(mean_of(d).value);
    for (std::size_t i = 0; i < e.n; ++i) mean[i] += d[i] / static_cast<double>(random.size());
  }
  if (random.empty()) return e.random = e.difference = {}, e.random_spread = std::nan(""), e;
  e.random = mean_of(mean);
  e.random_spread = shape_of(sets).deviation;
  for (std::size_t i = 0; i < e.n; ++i) difference[i] -= mean[i];
  e.difference = mean_of(difference);
  return e;
}

step_figure figure_of(const std::vector<effect>& effects, const std::vector<key>& measures, const char* title,
                      const char* y) {
  constexpr colour colours[] = {palette::blue, palette::vermilion, palette::green, palette::purple};
  step_figure f;
  f.joined = false;
  f.text = {title, "changed model minus the model as it is, bars: 95 % intervals; pale: random heads or planes", "", y};
  std::size_t number = 0;
  for (const auto& m : measures) {
    const std::string name = m.first == "loss" ? m.second + " tokens" : m.first + " over " + m.second;
    step_figure::series chosen{name, colours[number % 4], {}, {}}, random{"", 0xc8c8c8, {}, {}};
    f.steps.clear();
    for (const auto& e : effects) {
      if (key{e.measure, e.place} != m) continue;
      f.steps.push_back(e.ranking + " " + e.intervention);
      chosen.add(e.chosen.value, half_width(e.chosen));
      random.add(e.random.value, half_width(e.random));
    }
    f.lines.push_back(std::move(random));
    f.lines.push_back(std::move(chosen));
    ++number;
  }
  return f;
}

/// Draws the loss of far tokens over the number of changed heads, for rankings that are named NAME-COUNT.
step_figure curves_of(const std::vector<effect>& effects) {
  constexpr colour colours[] = {palette::blue, palette::vermilion, palette::green, palette::purple};
  std::map<std::string, std::map<index_t, effect>> curves;
  std::set<index_t> counts;
  for (const auto& e : effects) {
    const auto dash = std::min(e.ranking.rfind('-'), e.ranking.size());
    const auto count = whole_number<index_t>(std::string_view(e.ranking).substr(std::min(dash + 1, e.ranking.size())));
    if (!count || key{e.measure, e.place} != key{"loss", "far"}) continue;
    curves[e.ranking.substr(0, dash) + " " + e.intervention][*count] = e;
    counts.insert(*count);
  }
  step_figure f;
  f.text = {"Loss of far tokens by the number of heads or planes that are changed",
            "changed model minus the model as it is, bars: 95 % intervals; dashed: random heads or planes", "",
            "change of the loss (nats per token)"};
  for (const index_t n : counts) f.steps.push_back(std::to_string(n));
  std::size_t number = 0;
  for (auto& [name, by_count] : curves) {
    const bool has_random = by_count.begin()->second.random_spread >= 0;
    step_figure::series chosen{name, colours[number % 4], {}, {}}, random{"", colours[number % 4], {}, {}, true};
    for (const index_t n : counts) {
      const effect& e = by_count[n];  // NaN where there is none
      chosen.add(e.chosen.value, half_width(e.chosen));
      random.add(e.random.value, half_width(e.random));
    }
    f.lines.push_back(std::move(chosen));
    if (has_random) f.lines.push_back(std::move(random));
    ++number;
  }
  return f;
}

/// Lists the effects of the conditions RANKING/chosen/INTERVENTION and RANKING/random-N/INTERVENTION in a folder that
/// qkgeom evaluate wrote. Throws `error` if a condition lacks documents or probes that others have.
std::vector<effect> effects_of(const evaluation_tables& t, const std::filesystem::path& folder) {
  std::vector<effect> effects;
  for (const auto& condition : t.conditions) {
    const auto first = condition.find('/'), last = condition.rfind('/');
    if (first == std::string::npos || condition.substr(first, last - first) != "/chosen") continue;
    const std::string ranking = condition.substr(0, first), intervention = condition.substr(last + 1);
    std::vector<std::string> random;
    for (const auto& other : t.conditions)
      if (other.starts_with(ranking + "/random-") && other.ends_with("/" + intervention)) random.push_back(other);
    for (const auto& what : t.measures) effects.push_back(effect_of(t, ranking, intervention, random, what, folder));
  }
  require(!effects.empty(), folder.string(), ": no condition is named RANKING/chosen/CHANGE");
  return effects;
}

constexpr const char* place_meaning =
    "positions: `all`, `near` (first fifth), `far` (last fifth), `far_less_near`; of probes the distance, tokens";

/// Writes effects.csv and a figure each for loss and probes.
void write_effects(output_folder& out, const std::vector<effect>& effects, const std::vector<key>& measures) {
  table_columns<effect> c;
  c.add("ranking", "ranking that chose the heads, as in chosen_heads.csv, or the planes", &effect::ranking);
  c.add("intervention",
        "`ablate`: the heads' output is 0; `clamp`, `clamp_all`: their keys lose their drift along a, all of their "
        "slope; `restore`: their queries and keys are those of another checkpoint; `still`: planes of their rotary "
        "embedding do not rotate",
        &effect::intervention);
  c.add("measure", "`loss`, nats per token; `copy`, `lookup`: share of tokens named", &effect::measure);
  c.add("place", place_meaning, &effect::place);
  c.add("n", "number of documents or probes", &effect::n).add("base", "mean of the condition `none`", &effect::base);
  c.add("chosen", "change by the chosen heads", &effect::chosen);
  c.add("random", "change by random heads, mean of the random sets", &effect::random);
  c.add("random_spread", "standard deviation of the change over the random sets", &effect::random_spread);
  c.add("difference", "chosen less random", &effect::difference);
  out.write("effects.csv", std::move(c).with_rows(effects));
  std::vector<key> probes;
  std::copy_if(measures.begin(), measures.end(), std::back_inserter(probes), [](auto& m) { return m.first != "loss"; });
  draw(figure_of(effects, {{"loss", "near"}, {"loss", "far"}}, "What changing heads costs: loss near and far",
                 "change of the loss (nats per token)"),
       out.figure("effects_loss"));
  if (const auto curves = curves_of(effects); curves.steps.size() > 1) draw(curves, out.figure("effects_by_count"));
  if (!probes.empty())
    draw(figure_of(effects, probes, "What changing heads costs: finding again what stood before",
                   "change of the share that is named"),
         out.figure("effects_probes"));
}

void write_agreements(output_folder& out, const std::vector<agreement>& found) {
  table_columns<agreement> c;
  c.add("measure", "`loss`; `copy`, `lookup`", &agreement::measure).add("place", place_meaning, &agreement::place);
  c.add("column", "column of the predictions", &agreement::column);
  c.add("conditions", "number of conditions, random ones among them", &agreement::conditions);
  c.add("rank_correlation",
        "Spearman's correlation of predictions and changes; its error is over documents or probes, and empty where "
        "none changes a rank",
        &agreement::rank_correlation);
  out.write("agreement.csv", std::move(c).with_rows(found));
}

void print_agreements(printer& out, const std::vector<agreement>& found) {
  if (found.empty()) return;
  std::vector<std::string> columns;
  for (const auto& a : found)
    if (std::find(columns.begin(), columns.end(), a.column) == columns.end()) columns.push_back(a.column);
  out.line();
  out.heading("Predictions against changes: rank correlation over " + std::to_string(found[0].conditions) +
              " conditions");
  table t({"change of"}, columns);
  for (std::size_t i = 0; i < found.size(); i += columns.size()) {
    std::vector<std::string> cells{found[i].measure + " " + found[i].place};
    for (std::size_t k = 0; k < columns.size(); ++k)
      cells.push_back(signed_estimate_text(found[i + k].rank_correlation));
    t.row(cells);
  }
  out.print(t);
}

void print_effects(printer& out, const std::vector<effect>& effects, const std::vector<key>& measures) {
  const auto loss = std::find_if(effects.begin(), effects.end(), [](const effect& e) { return e.measure == "loss"; });
  if (loss != effects.end())
    if (const auto note = note_on_documents(static_cast<index_t>(loss->n))) print_notes(out, {*note});
  for (const auto& m : measures) {
    if (m == key{"loss", "all"}) continue;
    const auto first = std::find_if(effects.begin(), effects.end(), [&](const effect& e) {
      return key{e.measure, e.place} == m;
    });
    out.line();
    const std::string where = m.second == "far_less_near" ? "far less near" : m.second;
    out.heading((m.first == "loss" ? "Loss, " + where + " tokens (nats per token): "
                                   : "Share named, " + m.first + " over " + m.second + " tokens: ") +
                fixed(first->base, 3) + " in the model as it is; change when heads are changed, " +
                std::to_string(first->n) + (m.first == "loss" ? " documents" : " probes"));
    table t({""}, {"chosen", "random", "difference", "sd of random sets"});
    for (const auto& e : effects)
      if (key{e.measure, e.place} == m)
        t.row({e.ranking + " " + e.intervention, signed_estimate_text(e.chosen), signed_estimate_text(e.random),
               signed_estimate_text(e.difference), fixed(e.random_spread, 3)});
    out.print(t);
  }
}

}  // namespace
}  // namespace qkgeom::examples

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  std::filesystem::path evaluation, predictions;
  std::vector<std::string> columns;
  command_line app{"Effects of changed heads from what qkgeom evaluate wrote: effects.csv and figures"};
  app.add_option("EVALUATION", evaluation,
                 "Folder with condition_loss.csv and condition_probes.csv, of conditions that are named "
                 "RANKING/chosen/CHANGE and, to compare with, RANKING/random-N/CHANGE")
      .required();
  app.add_option("--out", a.out, "Folder for table and figures; made if it is not there").required().type_name("DIR");
  auto table = app.add_option("--table", predictions,
                              "CSV file with a row for each \"condition\", as plane_sets.csv of qkgeom bands");
  auto of_table = app.add_option("--columns", columns, "Columns of --table that are held against the changes").list();
  table.needs(of_table);
  of_table.needs(table);
  add_figures_argument(app, a);
  return run_main(argc, argv, app, a, [&] {
    const auto tables = read_tables(evaluation);
    const auto effects = effects_of(tables, evaluation);
    const auto agreements =
        columns.empty() ? std::vector<agreement>{} : read_agreements(tables, evaluation, predictions, columns);
    output_folder folder(a.out, a.figures);
    write_effects(folder, effects, tables.measures);
    if (!agreements.empty()) write_agreements(folder, agreements);
    printer out;
    print_effects(out, effects, tables.measures);
    print_agreements(out, agreements);
    folder.print(out);
  });
}
