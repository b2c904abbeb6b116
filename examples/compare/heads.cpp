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

/// The numbers of every head of a capture in a context, with their values without each document.
struct head_state {
  trajectory_point point;
  std::vector<std::pair<std::string, std::vector<group_number>>> numbers;  ///< (heads)
};

head_state state_of(const arguments& a, const analysis_options& options, const capture_set& source,
                    const std::string& label, index_t context, bool with_grip) {
  const auto& manifest = source.manifest();
  const bool as_captured = context == manifest.context_length && manifest.rope_stage == "post";
  const auto found =
      analyse_set(a, as_captured ? source : what_if(source, {.context_length = context}), options, label);
  head_state s{point_of(found.report, label), {}};
  for (const char* name : compared_columns) {
    const auto& column = s.point.column(name);
    auto& heads = s.numbers.emplace_back(name, std::vector<group_number>{}).second;
    for (std::size_t h = 0; h < column.value.size(); ++h) {
      heads.push_back({name, column.value[h], {}});
      for (const auto& values : column.without) heads.back().without.push_back(values[h]);
    }
  }
  if (!with_grip) return s;
  analysed captured{std::make_shared<const capture_set>(source), found.report};
  const auto grip = find_grip(a, {.context = context}, std::move(captured)).predicted;
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

void add_changes(std::vector<head_change>& all, const head_state& model, const head_state& less, change_part part,
                 index_t context, bool paired) {
  check_comparable(model.point, less.point);
  for (std::size_t n = 0; n < model.numbers.size(); ++n) {
    const auto& [name, x] = model.numbers[n];
    const auto& y = less.numbers[n].second;
    const auto first = all.size();
    std::vector<double> p;
    for (std::size_t h = 0; h < x.size(); ++h) {
      head_change c{.head = model.point.heads[h],
                    .number = name,
                    .context = context,
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

std::string short_name(const head_place& h) { return std::to_string(h.layer) + "." + std::to_string(h.q_head); }

/// Draws the differences in the longest context, in standard errors.
map_figure map_of(const head_comparison& pair) {
  const index_t context = pair.changes.back().context;
  const auto changes_of = [&](const char* number) {
    std::vector<const head_change*> found;
    for (const auto& x : pair.changes)
      if (x.number == number && x.context == context && x.part == change_part::total) found.push_back(&x);
    return found;
  };
  model_report places;
  for (const auto* x : changes_of(compared_columns[0])) {
    auto& h = places.heads.emplace_back();
    h.layer = x->head.layer;
    h.q_head = x->head.q_head;
    h.rope = x->head.rope;
  }
  map_figure f;
  f.text = {"Which heads changed",
            pair.model + " less " + pair.less + ", in " + grouped(context) + " tokens; differences in standard errors",
            "query head", "layer"};
  for (const char* number : {"bias_context_logits", "ap_drop", "winner_8", "matched_8"}) {
    const auto shown = changes_of(number);
    if (shown.empty()) continue;
    f.panels.push_back({number, cells_of(places, f, [&](const head_report& h) {
                          const auto& d = shown[static_cast<std::size_t>(&h - places.heads.data())]->difference;
                          return d.error > 0 ? d.value / d.error : no_value;
                        })});
  }
  f.diverge_to(6);
  f.digits = 0;
  f.scale_label = "standard errors";
  return f;
}

}  // namespace

head_comparison compare_heads(const arguments& a, const analysis_options& options, index_t context,
                              const std::pair<capture_set, std::string>& model,
                              const std::pair<capture_set, std::string>& less, bool paired) {
  const auto &is = model.first.manifest(), &was = less.first.manifest();
  const index_t captured = is.context_length;
  require(captured == was.context_length, "--heads compares captures of one context, and ", model.second, " has ",
          captured, " tokens, ", less.second, " ", was.context_length);
  require(context == 0 || context >= captured, "--context ", context, " is shorter than the captures, ", captured,
          " tokens");
  const auto has_grip = [](const capture_manifest& m) {  // the keys of every token, and scores by distance
    return m.rate == 1 && std::none_of(m.layers.begin(), m.layers.end(), [&](const auto& l) {
             const auto norm = m.steps_of(l).norm;
             return norm && norm->weighs();
           });
  };
  const bool with_grip = has_grip(is) && has_grip(was);
  const auto state = [&](const capture_set& source, const std::string& label, index_t n) {
    return state_of(a, options, source, label, n, with_grip);
  };
  head_comparison found{model.second, less.second, {}};
  for (const index_t n : {captured, context}) {
    if (n == 0 || (n == captured && !found.changes.empty())) continue;
    const auto now = state(model.first, model.second, n), before = state(less.first, less.second, n);
    add_changes(found.changes, now, before, change_part::total, n, paired);
    if (is.rope == was.rope) continue;
    const auto between = state(what_if_as_in(less.first, is), less.second + ", other embedding", n);
    add_changes(found.changes, between, before, change_part::frequencies, n, paired);
    add_changes(found.changes, now, between, change_part::statistics, n, paired);
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
