// SPDX-License-Identifier: MIT
#include "examples/common/terminal.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/numbers/head_values.hpp"
#include "qkgeom/report/head_groups.hpp"

namespace qkgeom::examples {

std::string estimate_text(const estimate& e, bool aligned) {
  if (!std::isfinite(e.error)) return fixed(e.value, 3);
  const int decimals = decimals_of_error(e.error, 3);
  return fixed(e.value, 3) + " ± " + fixed(e.error, decimals) + (decimals == 3 && aligned ? " " : "");
}

std::string signed_estimate_text(const estimate& e) {
  if (!std::isfinite(e.error)) return signed_fixed(e.value, 3);
  return signed_fixed(e.value, 3) + " ± " + fixed(e.error, decimals_of_error(e.error, 3));
}

model_report with_headline(const model_report& report, int profile) {
  model_report r{report.model, report.context_length, report.buckets, {}};
  for (const auto& h : report.heads) {
    head_report one;
    one.rope = h.rope;
    if (profile >= 0)
      one.profiles.push_back(h.profiles[profile]);
    else if (h.empirical)
      one.profiles.push_back(unbiased(*h.empirical));
    r.heads.push_back(std::move(one));
  }
  return r;
}

namespace {

using align = table::align;

table table_of_groups(const std::string& first, const std::vector<head_group>& groups) {
  std::vector<table::column> columns{{first, align::left}};
  for (const auto& g : groups) columns.push_back({words_for_heads(g), align::right});
  return table(std::move(columns));
}

void plasticity_rows(table& t, const model_report& report, const std::string& model) {
  bool first = true;
  for (const auto& g : summarize_model(report)) {
    t.row({first ? model : "", words_for_heads(g.name), estimate_text(g.overall, true), estimate_text(g.first20, true),
           estimate_text(g.last20, true), estimate_text(g.drop, true)});
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
struct analyses_of {
  bool geometry = false, plasticity = false;

  explicit analyses_of(const model_report& report) {
    if (report.heads.empty()) return;
    geometry = !report.heads[0].rotation.drift_axis.empty();
    plasticity = !report.heads[0].summaries.empty();
  }
};

/// Why no head has a plasticity; empty if a head has one. The report must hold profiles.
std::string no_plasticity_words(const model_report& report) {
  for (const auto& h : report.heads)
    if (std::isfinite(h.summaries.at(0).overall.value)) return {};
  const auto& buckets = report.heads[0].profiles[0].buckets;
  if (buckets.size() == 1 && buckets[0].start == 0 && buckets[0].end >= report.context_length)
    return "None: one query bucket covers the whole context, and no key stands before it; --bucket-size makes narrower "
           "ones.";
  // Layers differ in their rows: the head with most usable buckets counts.
  std::size_t modelled = 0, paired = 0;
  for (const auto& h : report.heads) {
    const auto count = [&](auto&& has) {
      return std::size_t(std::count_if(h.profiles[0].buckets.begin(), h.profiles[0].buckets.end(), has));
    };
    modelled = std::max(modelled, count([](const profile_bucket& b) { return b.queries >= 2; }));
    paired = std::max(paired, count([](const profile_bucket& b) { return b.pairs > 0; }));
  }
  return "None: of " + counted(buckets.size(), "query bucket") + " " + std::to_string(modelled) +
         " hold the two queries that a query model needs, and " + std::to_string(paired) +
         " have a pair of earlier keys of one document. More rows (qkgeom capture --rate) or more documents give them.";
}

/// Rows for the first `each` heads by falling `key`, and for as many from the other end, the last of all before the
/// others; fewer if the model has too few heads.
void extreme_rows(table& t, const model_report& report, std::size_t each, const char* top, const char* bottom,
                  double (*key)(const head_report&)) {
  const analyses_of has(report);
  const auto heads = sorted_heads(report, key);
  const std::size_t n = std::min(each, (heads.size() + 1) / 2), m = std::min(each, heads.size() / 2);
  const auto row = [&](const head_report& h, const std::string& label) {
    std::vector<std::string> cells{label, head_name(h)};
    const auto& r = h.rotation;
    if (has.geometry) {
      cells.push_back(signed_significant(r.bias.context_logits));
      cells.push_back(fixed(r.q.r, 2));
      cells.push_back(fixed(r.k.r, 2));
    }
    if (has.plasticity) cells.push_back(estimate_text(h.summaries[0].overall, true));
    t.row(std::move(cells));
  };
  for (std::size_t i = 0; i < n; ++i) row(*heads[i], i == 0 ? top : "");
  for (std::size_t i = 0; i < m; ++i) row(*heads[heads.size() - 1 - i], i == 0 ? bottom : "");
}

}  // namespace

void print_classes(printer& out, const model_report& report, const class_thresholds& thresholds) {
  if (report.heads.empty()) return;
  const auto point = point_of(report, report.model);
  const auto groups = head_groups(point.heads);
  out.heading("Head classes on PCA component 0: |r| above " + significant(thresholds.high, 2) +
              " is positional, below " + significant(thresholds.low, 2) + " is not");
  auto t = table_of_groups("class", groups);
  for (std::size_t i = 0; i < all_head_classes.size(); ++i) {
    std::vector<std::string> cells{class_words(all_head_classes[i])};
    for (const auto& g : groups) {
      const auto e = class_share(point, g.heads, all_head_classes[i]).estimate();
      cells.push_back(percent(e.value) + (std::isfinite(e.error) ? " ± " + percent(e.error) : std::string()));
    }
    t.row(std::move(cells));
  }
  out.print(t);
}

void print_position(printer& out, const model_report& report) {
  if (report.heads.empty()) return;
  const auto point = point_of(report, report.model);
  const auto groups = head_groups(point.heads);
  const bool errors = !report.heads[0].geometry.without.empty();
  out.heading(std::string("Position in the geometry: means over heads") +
              (errors ? " ± standard error over documents" : ""));
  out.line("  r: correlation with position. Axis a: the direction in which queries and keys drift along the context.");
  out.line("  Bias strength × context: the logits that a key gains by standing at the context's end, not its start.\n");
  auto t = table_of_groups("", groups);
  const auto row = [&](const char* name, const auto& estimate_of, const auto& text, const auto& error_text) {
    std::vector<std::string> cells{name};
    for (const auto& g : groups) {
      const auto e = estimate_of(g.heads);
      cells.push_back(text(e.value) + (std::isfinite(e.error) ? " ± " + error_text(e.error) : std::string()));
    }
    t.row(std::move(cells));
  };
  const auto mean_abs = [&](const char* column) {
    return [&point, column](const auto& heads) {
      return over_heads(point.column(column), heads, head_statistic::mean_abs);
    };
  };
  const auto digits = [&](double x) { return fixed(x, errors ? 3 : 2); };
  row("|r_q| on component 0", mean_abs("r_q_pc0"), digits, digits);
  row("|r_k| on component 0", mean_abs("r_k_pc0"), digits, digits);
  row("|r_q| on axis a", mean_abs("r_q_a"), digits, digits);
  row("|r_k| on axis a", mean_abs("r_k_a"), digits, digits);
  t.rule();
  row(
      "heads with positive bias strength",
      [&](const auto& heads) { return positive_bias_share(point, heads).estimate(); }, percent, percent);
  row(
      "median bias strength × context, logits",
      [&](const auto& heads) { return over_heads(point.column("bias_context_logits"), heads, head_statistic::median); },
      [](double x) { return signed_significant(x); }, [](double x) { return significant(x, 2); });
  out.print(t);
}

void print_plasticity(printer& out, const model_report& report) {
  if (report.heads.empty() || report.heads[0].profiles.empty()) return;
  if (const auto why = no_plasticity_words(report); !why.empty()) {
    out.heading("Attention plasticity");
    out.line("  " + why);
    return;
  }
  out.heading("Attention plasticity: mean over heads ± standard error over documents");
  out.line("  0: all queries order two keys alike; 1: either order is as likely. Over " + pairs_words(report) + ".");
  double drawing = 0;
  for (const auto& h : report.heads)
    if (const double e = sampling_errors(h.profiles[0], report.context_length).overall; e > drawing) drawing = e;
  if (drawing > 0)
    out.line("  Drawing pairs adds an error to a head's overall value: at most " + significant(drawing) + ".");
  out.line("");
  table t({"query model", ""}, {"overall", "first 20 %", "last 20 %", "drop"});
  for (std::size_t c = 0; c < report.heads[0].profiles.size(); ++c) {
    if (c > 0) t.rule();
    plasticity_rows(t, with_headline(report, static_cast<int>(c)), std::string(report.heads[0].profiles[c].covariance));
  }
  if (report.heads[0].empirical) {
    t.rule();
    plasticity_rows(t, with_headline(report, -1), "observed queries");
  }
  out.print(t);
}

void print_extremes(printer& out, const model_report& report, std::size_t each) {
  const analyses_of has(report);
  out.heading("Strongest and weakest heads");
  std::vector<table::column> columns{{"", align::left}, {"head", align::left}};
  if (has.geometry)
    for (const char* name : {"bias × context, logits", "r_q on a", "r_k on a"}) columns.push_back({name, align::right});
  if (has.plasticity) columns.push_back({"plasticity", align::right});
  table t(std::move(columns));
  if (has.geometry)
    extreme_rows(t, report, each, "strongest bias", "weakest bias",
                 [](const head_report& h) { return std::abs(h.rotation.bias.strength); });
  if (has.geometry && has.plasticity) t.rule();
  if (has.plasticity)
    extreme_rows(t, report, each, "most plastic", "least plastic",
                 [](const head_report& h) { return h.summaries[0].overall.value; });
  out.print(t);
}

}  // namespace qkgeom::examples
