// SPDX-License-Identifier: MIT
#include "examples/common/report_text.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/report_figures.hpp"
#include "qkgeom/report/pair_summary.hpp"

namespace qkgeom::examples {
namespace {

using align = table::align;

std::string with_error(const estimate& e) {
  if (!std::isfinite(e.error)) return fixed(e.value, 3);
  return fixed(e.value, 3) + " ± " + (e.error >= 0.0005 || e.error == 0 ? fixed(e.error, 3) + " " : fixed(e.error, 4));
}

/// A row of one value for each group of heads.
template <class Text>
void group_row(table& t, const std::string& name, const std::vector<group_summary>& groups, const Text& text) {
  std::vector<std::string> cells{name};
  for (const auto& g : groups) cells.push_back(text(g));
  t.row(std::move(cells));
}

table table_of_groups(const std::string& first, const std::vector<group_summary>& groups) {
  std::vector<table::column> columns{{first, align::left}};
  for (const auto& g : groups) columns.push_back({g.name + " (" + std::to_string(g.heads) + ")", align::right});
  return table(std::move(columns));
}

/// The report with another of its profiles as the headline; -1: the observed queries, unbiased.
model_report with_headline(const model_report& report, int profile) {
  model_report r{report.model, report.context_length, report.buckets, {}};
  for (const auto& h : report.heads) {
    head_report one;
    one.rope = h.rope;
    if (profile >= 0)
      one.profiles.push_back(h.profiles[static_cast<std::size_t>(profile)]);
    else if (h.empirical)
      one.profiles.push_back(unbiased(*h.empirical));
    r.heads.push_back(std::move(one));
  }
  return r;
}

void plasticity_rows(table& t, const model_report& report, const std::string& model) {
  bool first = true;
  for (const auto& g : summarize_model(report)) {
    t.row({first ? model : "", g.name, with_error(g.overall), with_error(g.first20), with_error(g.last20),
           with_error(g.drop)});
    first = false;
  }
}

std::vector<const head_report*> sorted_heads(const model_report& report, double (*key)(const head_report&)) {
  std::vector<const head_report*> heads;
  for (const auto& h : report.heads)
    if (std::isfinite(key(h))) heads.push_back(&h);
  std::stable_sort(heads.begin(), heads.end(), [&](const auto* a, const auto* b) { return key(*a) > key(*b); });
  return heads;
}

/// Which analyses a report holds.
struct parts {
  bool geometry = false, plasticity = false;

  explicit parts(const model_report& report) {
    if (report.heads.empty()) return;
    geometry = !report.heads[0].rotation.drift_axis.empty();
    plasticity = !report.heads[0].summaries.empty();
  }
};

/// The first `each` and the last `each` heads of an order, less if there are too few for both.
void extreme_rows(table& t, const model_report& report, std::size_t each, const char* top, const char* bottom,
                  double (*key)(const head_report&)) {
  const parts has(report);
  const auto heads = sorted_heads(report, key);
  const std::size_t n = std::min(each, (heads.size() + 1) / 2), m = std::min(each, heads.size() / 2);
  const auto row = [&](const head_report& h, const std::string& label) {
    std::vector<std::string> cells{label, head_name(h)};
    const auto& r = h.rotation;
    if (has.geometry) {
      cells.push_back(signed_significant(r.bias_strength * static_cast<double>(report.context_length)));
      cells.push_back(fixed(r.r_q_a, 2));
      cells.push_back(fixed(r.r_k_a, 2));
    }
    if (has.plasticity) cells.push_back(with_error(h.summaries[0].overall));
    t.row(std::move(cells));
  };
  for (std::size_t i = 0; i < n; ++i) row(*heads[i], i == 0 ? top : "");
  for (std::size_t i = 0; i < m; ++i) row(*heads[heads.size() - m + i], i == 0 ? bottom : "");
}

}  // namespace

void print_classes(printer& out, const model_report& report, const class_thresholds& thresholds) {
  const auto groups = summarize_model(report);
  out.heading("Head classes on PCA component 0: |r| above " + significant(thresholds.high, 2) +
              " is positional, below " + significant(thresholds.low, 2) + " is not");
  auto t = table_of_groups("class", groups);
  for (std::size_t i = 0; i < all_head_classes.size(); ++i) {
    std::string name(name_of(all_head_classes[i]));
    std::replace(name.begin(), name.end(), '_', '-');
    group_row(t, name, groups, [&](const group_summary& g) { return percent(g.class_share[i]); });
  }
  out.print(t);
}

void print_position(printer& out, const model_report& report) {
  const auto groups = summarize_model(report);
  out.heading("Position in the geometry: means over heads");
  out.line("  r: correlation with position. Axis a: the direction in which queries and keys drift along the context.");
  out.line("  Bias strength × context: the score that a key gains by standing at the context's end, not its start.\n");
  auto t = table_of_groups("", groups);
  const auto row = [&](const char* name, double group_summary::*value) {
    group_row(t, name, groups, [&](const group_summary& g) { return fixed(g.*value, 2); });
  };
  row("|r_q| on component 0", &group_summary::abs_r_q_pc0);
  row("|r_k| on component 0", &group_summary::abs_r_k_pc0);
  row("|r_q| on axis a", &group_summary::abs_r_q_a);
  row("|r_k| on axis a", &group_summary::abs_r_k_a);
  t.rule();
  group_row(t, "heads with positive bias strength", groups,
            [](const group_summary& g) { return percent(g.positive_bias_share); });
  group_row(t, "median bias strength × context", groups, [&](const group_summary& g) {
    return signed_significant(g.median_bias * static_cast<double>(report.context_length));
  });
  out.print(t);
}

void print_plasticity(printer& out, const model_report& report) {
  if (report.heads.empty() || report.heads[0].profiles.empty()) return;
  out.heading("Attention plasticity: mean over heads ± standard error over documents");
  out.line("  0: all queries order two keys alike; 1: either order is as likely. Over " + pairs_words(report) + ".");
  double drawing = 0;
  for (const auto& h : report.heads)
    if (const double e = sampling_errors(h.profiles[0], report.context_length).overall; e > drawing) drawing = e;
  if (drawing > 0)
    out.line("  Drawing pairs adds an error to a head's overall value: at most " + significant(drawing) + ".");
  out.line("");
  table t({{"query model", align::left}, {"", align::left}, {"overall"}, {"first 20 %"}, {"last 20 %"}, {"drop"}});
  for (std::size_t c = 0; c < report.heads[0].profiles.size(); ++c) {
    if (c > 0) t.rule();
    plasticity_rows(t, with_headline(report, static_cast<int>(c)), std::string(report.heads[0].profiles[c].covariance));
  }
  if (report.heads[0].empirical) {
    t.rule();
    plasticity_rows(t, with_headline(report, -1), "none, observed");
  }
  out.print(t);
}

void print_extremes(printer& out, const model_report& report, std::size_t each) {
  const parts has(report);
  out.heading("Strongest and weakest heads");
  std::vector<table::column> columns{{"", align::left}, {"head", align::left}};
  if (has.geometry)
    for (const char* name : {"bias × context", "r_q on a", "r_k on a"}) columns.push_back({name, align::right});
  if (has.plasticity) columns.push_back({"plasticity", align::right});
  table t(std::move(columns));
  if (has.geometry)
    extreme_rows(t, report, each, "strongest bias", "weakest bias",
                 [](const head_report& h) { return std::abs(h.rotation.bias_strength); });
  if (has.geometry && has.plasticity) t.rule();
  if (has.plasticity)
    extreme_rows(t, report, each, "most plastic", "least plastic",
                 [](const head_report& h) { return h.summaries[0].overall.value; });
  out.print(t);
}

}  // namespace qkgeom::examples
