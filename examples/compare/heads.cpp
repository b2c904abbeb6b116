// SPDX-License-Identifier: MIT
#include "examples/compare/heads.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "examples/common/figures/head_cells.hpp"
#include "examples/common/labels.hpp"
#include "examples/grip/grip_study.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

constexpr double largest_rate = 0.05;
constexpr const char* compared_columns[] = {"bias_context_logits", "ap_overall", "ap_drop"};
constexpr const char* name_of(change_part part) {
  constexpr const char* names[] = {"total", "frequencies", "statistics"};
  return names[static_cast<std::size_t>(part)];
}

/// Whether grip can be found: the keys of every token, and scores that are functions of distance.
bool has_grip(const capture_manifest& m) {
  return m.rate == 1 && std::none_of(m.layers.begin(), m.layers.end(), [&](const auto& l) {
           const auto norm = m.steps_of(l).norm;
           return norm && norm->weighs();
         });
}

/// `captured`: the analysis of the source as it is; null: not made yet.
head_state state_of(const arguments& a, const analysis_options& options, std::shared_ptr<const capture_set> source,
                    const model_report* captured, const std::string& label, index_t context) {
  const auto& manifest = source->manifest();
  const bool as_captured = context == manifest.context_length && manifest.rope_stage == "post";
  auto report =
      as_captured && captured
          ? *captured
          : analyse_set(a, as_captured ? *source : what_if(*source, {.context_length = context}), options, label)
                .report;
  head_state s{context, point_of(report, label), {}};
  for (const char* name : compared_columns) {
    const auto& column = s.point.column(name);
    auto& heads = s.numbers.emplace_back(name, std::vector<group_number>{}).second;
    for (std::size_t h = 0; h < column.value.size(); ++h) {
      heads.push_back({name, column.value[h], {}});
      for (const auto& values : column.without) heads.back().without.push_back(values[h]);
    }
  }
  if (!has_grip(manifest)) return s;
  const auto grip = find_grip(a, {.context = context}, {std::move(source), std::move(report)}).predicted;
  const auto add = [&](const std::string& name, const auto& of) {
    auto& heads = s.numbers.emplace_back(name, std::vector<group_number>{}).second;
    for (const auto& h : grip) {
      heads.push_back(of(h));
      heads.back().name = name;
    }
  };
  for (const auto kind : all_needle_kinds)
    for (const index_t top : {1, 8})
      add(std::string(name_of(kind)) + "_" + std::to_string(top), [&](const head_grip& h) {
        const auto& g = h.at(kind, context, top);
        return group_number{"", g.value.value, g.without};
      });
  add("reach", [](const head_grip& h) { return group_number{"", h.reach.value, h.reach_without}; });
  return s;
}

/// Adds the changes of the first `numbers` numbers.
void add_changes(std::vector<head_change>& all, const head_state& model, const head_state& less, std::size_t numbers,
                 change_part part, bool paired) {
  check_comparable(model.point, less.point);
  for (std::size_t n = 0; n < numbers; ++n) {
    const auto& [name, x] = model.numbers[n];
    const auto& y = less.numbers[n].second;
    const auto first = all.size();
    std::vector<double> p;
    for (std::size_t h = 0; h < x.size(); ++h) {
      head_change c{.head = model.point.heads[h],
                    .number = name,
                    .context = model.context,
                    .part = part,
                    .value = x[h].value,
                    .less_value = y[h].value,
                    .difference = difference_of(x[h], y[h], paired)};
      c.is = model.point.classes[h];
      c.was = less.point.classes[h];
      const auto& d = c.difference;
      p.push_back(c.p = two_sided_p(d.value, d.error, d.freedom));
      all.push_back(std::move(c));
    }
    const auto rates = false_discovery_rates(p);
    for (std::size_t h = 0; h < rates.size(); ++h) all[first + h].rate = rates[h];
  }
}

bool changed(const head_change& c) { return c.part == change_part::total && c.rate <= largest_rate; }

/// Draws the differences in the longest context, in standard errors.
map_figure map_of(const head_comparison& pair) {
  const index_t context = pair.changes.back().context;
  map_figure f;
  f.text = {"Which heads changed",
            pair.model + " less " + pair.less + ", in " + grouped(context) + " tokens; differences in standard errors",
            "query head", "layer"};
  for (const char* number : {"bias_context_logits", "ap_drop", "winner_8", "matched_8"}) {
    std::vector<head_place> places;
    std::vector<double> values;
    for (const auto& x : pair.changes)
      if (x.number == number && x.context == context && x.part == change_part::total) {
        places.push_back(x.head);
        values.push_back(x.difference.error > 0 ? x.difference.value / x.difference.error : no_value);
      }
    if (!places.empty()) f.panels.push_back({number, cells_of(places, f, values)});
  }
  f.diverge_to(6);
  f.digits = 0;
  f.scale_label = "standard errors";
  return f;
}

}  // namespace

compared_heads heads_of(const arguments& a, const analysis_options& options, const analysed& found, std::string label,
                        index_t context) {
  const index_t captured = found.source->manifest().context_length;
  require(context == 0 || context >= captured, "--context ", context, " is shorter than the captures, ", captured,
          " tokens");
  compared_heads heads{std::move(label), found.source, {}};
  for (const index_t n : {captured, context})
    if (heads.states.empty() || n > captured)
      heads.states.push_back(state_of(a, options, found.source, &found.report, heads.label, n));
  return heads;
}

head_comparison compare_heads(const arguments& a, const analysis_options& options, const compared_heads& model,
                              const compared_heads& less, bool paired) {
  const auto &is = model.source->manifest(), &was = less.source->manifest();
  require(is.context_length == was.context_length, "--heads compares captures of one context, and ", model.label,
          " has ", is.context_length, " tokens, ", less.label, " ", was.context_length);
  head_comparison found{model.label, less.label, {}};
  std::shared_ptr<const capture_set> between;  // the other model's rows under this one's embedding
  if (is.rope != was.rope) between = std::make_shared<const capture_set>(what_if_as_in(*less.source, is));
  for (std::size_t i = 0; i < model.states.size(); ++i) {
    const auto &now = model.states[i], &before = less.states[i];
    const std::size_t numbers = std::min(now.numbers.size(), before.numbers.size());
    add_changes(found.changes, now, before, numbers, change_part::total, paired);
    if (!between) continue;
    const auto middle = state_of(a, options, between, nullptr, less.label + ", other embedding", now.context);
    add_changes(found.changes, middle, before, numbers, change_part::frequencies, paired);
    add_changes(found.changes, now, middle, numbers, change_part::statistics, paired);
  }
  return found;
}

void write_head_changes(output_folder& out, const std::vector<head_comparison>& pairs) {
  struct row {
    const head_comparison* pair;
    const head_change* change;
  };
  table_columns<row> c;
  c.of(&row::pair)
      .add("model", "label of model A", &head_comparison::model)
      .add("less", "label of model B", &head_comparison::less);
  c.of(&row::change)
      .add("layer", "number of the layer", [](auto& x) { return x.head.layer; })
      .add("q_head", "number of the query head", [](auto& x) { return x.head.q_head; })
      .add("rope", "1 in layers with rotary embedding, else 0", [](auto& x) { return x.head.rope; })
      .add("context", "tokens: as captured, or as predicted from it (`--context`)", &head_change::context)
      .add("part",
           "`total`; where the embeddings differ also `frequencies`, B's rows under A's embedding less B, and "
           "`statistics`, A less these",
           [](auto& x) { return name_of(x.part); })
      .add("number", "a column of heads.csv or grip_heads.csv", &head_change::number)
      .add("value", "value of A", &head_change::value)
      .add("less_value", "value of B", &head_change::less_value)
      .add("difference", "value of A less that of B",
           [](auto& x) {
             return estimate{x.difference.value, x.difference.error, x.difference.freedom};
           })
      .add("p", "probability of a difference so large if there is none", &head_change::p)
      .add("rate",
           "expected share of heads without a difference among those of this rate or a lower one (Benjamini and "
           "Hochberg), over the heads of this number, context and part",
           &head_change::rate)
      .add("class", "head class of A in this context", [](auto& x) { return qkgeom::name_of(x.is); })
      .add("less_class", "head class of B in this context", [](auto& x) { return qkgeom::name_of(x.was); });
  out.write("head_differences.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& pair : pairs)
      for (const auto& change : pair.changes) f(row{&pair, &change});
  }));
  auto list = nlohmann::json::array();
  for (const auto& pair : pairs)
    for (const auto& x : pair.changes)
      if (changed(x))
        list.push_back({{"model", pair.model},
                        {"less", pair.less},
                        {"head", short_name(x.head)},
                        {"number", x.number},
                        {"context", x.context},
                        {"difference", x.difference.value},
                        {"rate", x.rate}});
  write_text(out.table("changed_heads.json"), list.dump(1) + "\n");
  for (const auto& pair : pairs)
    if (!pair.changes.empty())
      draw(map_of(pair), out.figure("head_differences_of_" + file_name_of(pair.model + "_less_" + pair.less)));
}

void print_head_changes(printer& out, const std::vector<head_comparison>& pairs) {
  for (const auto& pair : pairs) {
    out.heading("Heads of " + pair.model + " that differ from " + pair.less + "'s (false discovery rate " +
                percent(largest_rate) + ")");
    table t({"number", "tokens"}, {"heads", "higher", "lower", "mean difference"}, {"most"});
    for (std::size_t i = 0; i < pair.changes.size();) {
      const auto& first = pair.changes[i];
      std::vector<const head_change*> most;
      double sum = 0, n = 0;
      index_t higher = 0;
      for (; i < pair.changes.size() && pair.changes[i].number == first.number && pair.changes[i].part == first.part;
           ++i) {
        const auto& x = pair.changes[i];
        if (!std::isnan(x.difference.value)) sum += x.difference.value, ++n;
        if (!changed(x)) continue;
        most.push_back(&x);
        higher += x.difference.value > 0;
      }
      if (first.part != change_part::total || n == 0) continue;
      std::sort(most.begin(), most.end(),
                [](auto* x, auto* y) { return std::abs(x->difference.value) > std::abs(y->difference.value); });
      std::string names;
      for (std::size_t k = 0; k < std::min<std::size_t>(5, most.size()); ++k)
        names += (k > 0 ? " " : "") + short_name(most[k]->head);
      const auto changed_heads = static_cast<index_t>(most.size());
      t.row({first.number, grouped(first.context), std::to_string(static_cast<index_t>(n)), std::to_string(higher),
             std::to_string(changed_heads - higher), significant(sum / n, 3), names});
    }
    out.print(t);
  }
}

}  // namespace qkgeom::examples
