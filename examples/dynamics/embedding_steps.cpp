// SPDX-License-Identifier: MIT
#include "examples/dynamics/trajectory.hpp"

#include <algorithm>

#include "examples/common/labels.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"

namespace qkgeom::examples {
namespace {

struct split_number {
  std::string name;
  number_of_heads of;
};

/// The numbers that are split: plasticity, the size of the bias and of the correlation with position, shares of
/// classes.
std::vector<split_number> split_numbers(const trajectory_point& point) {
  std::vector<split_number> numbers;
  for (const char* name : {"ap_overall", "ap_drop"})
    if (std::any_of(point.columns.begin(), point.columns.end(), [&](const auto& c) { return c.name == name; }))
      numbers.push_back({name, column_number(name)});
  for (const char* name : {"bias_strength_logits", "bias_context_logits", "r_q_a", "r_k_a"})
    numbers.push_back({std::string("abs_") + name, absolute_column(name)});
  for (const head_class c : all_head_classes) numbers.push_back({"share_" + std::string(name_of(c)), class_number(c)});
  return numbers;
}

/// Why rows of a capture cannot meet another embedding; empty: they can.
std::string obstacle(const capture_set& source) {
  const auto& m = source.manifest();
  if (!has_rows(source)) return "holds no rows";
  if (!m.rope) return "does not say its rotary embedding";
  for (const auto& l : m.layers)
    if (l.rope && l.rope_parameters && l.rope_parameters != m.rope) return "has layers with embeddings of their own";
  return {};
}

}  // namespace

std::vector<embedding_step> swap_embeddings(const arguments& a, const analysis_options& options,
                                            const std::vector<trajectory_point>& points,
                                            const std::vector<std::shared_ptr<const capture_set>>& sources) {
  std::vector<embedding_step> steps;
  for (const auto& [i, j] : checkpoint_steps(points)) {
    embedding_step step{points[i].label, points[j].label, false, {}};
    const auto &first = sources[i]->manifest(), &second = sources[j]->manifest();
    step.differs = first.context_length != second.context_length || first.rope != second.rope;
    const auto under = [&](std::size_t rows, std::size_t embedding) {
      if (!step.differs) return points[rows];
      auto of = options;
      const auto& other = sources[embedding]->manifest();
      if (of.bucket_size == 0 && of.bucket_edges.empty()) of.bucket_size = other.usual_bucket_size();
      const auto set = what_if_as_in(*sources[rows], other, kept_first_tokens, a.seed);
      const std::string label = points[rows].label + " as " + points[embedding].label;
      return point_of(analyse_set(a, set, of, label).report, label);
    };
    std::string why;
    if (step.differs)
      for (const std::size_t c : {i, j})
        if (const auto o = obstacle(*sources[c]); !o.empty()) why = points[c].label + " " + o;
    if (!why.empty()) {
      const std::string note = "note: " + step.from + " to " + step.to + " is not split by embedding: " + why + '\n';
      std::fputs(terminal_text(note).c_str(), stderr);
      continue;
    }
    step.with = {points[i], under(i, j), under(j, i), points[j]};
    steps.push_back(std::move(step));
  }
  return steps;
}

void write_embedding_steps(output_folder& out, const std::vector<embedding_step>& steps) {
  struct row {
    std::string from, to, group, number;
    cause_split split;
  };
  table_columns<row> c;
  c.add("from", "label of the earlier checkpoint", &row::from).add("to", "label of the later checkpoint", &row::to);
  c.add("group", group_meaning, &row::group);
  c.add("number", "column of heads.csv; `abs_`: its absolute value; `share_CLASS`: share of heads", &row::number);
  c.of(&row::split)
      .add("before", "mean over heads at the earlier checkpoint", &cause_split::none)
      .add("after", "mean over heads at the later checkpoint", &cause_split::all)
      .add("change", "after less before", &cause_split::change)
      .add("embedding", "part of the change by the rotary embedding and the context length (Shapley value)",
           [](auto& s) { return s.cause[0]; })
      .add("learned", "part of the change that was learned", [](auto& s) { return s.cause[1]; });
  out.write("embedding_split.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& s : steps)
      for (const auto& g : head_groups(s.with[0].heads))
        for (const auto& n : split_numbers(s.with[0]))
          f(row{s.from, s.to, g.name, n.name, split_by_cause(s.with, n.of, g.heads)});
  }));
}

void print_embedding_steps(printer& out, const std::vector<embedding_step>& steps) {
  if (std::none_of(steps.begin(), steps.end(), [](const embedding_step& s) { return s.differs; })) return;
  out.heading(
      "Steps to another rotary embedding or context: what these change by themselves, and what was learned "
      "(means over heads ± standard error over documents)");
  table t({"from", "to", "number"}, {"before", "after", "change", "embedding and context", "learned"});
  for (const auto& s : steps) {
    if (!s.differs) continue;
    for (const auto& n : split_numbers(s.with[0])) {
      const auto split = split_by_cause(s.with, n.of, every_head(s.with[0].heads));
      const bool nothing = split.cause[0].value == 0 && split.cause[1].value == 0;
      if (nothing || std::isnan(split.change.value)) continue;
      t.row({s.from, s.to, n.name, with_error(split.none), with_error(split.all), with_error(split.change, true),
             with_error(split.cause[0], true), with_error(split.cause[1], true)});
    }
    t.rule();
  }
  out.print(t);
}

}  // namespace qkgeom::examples
