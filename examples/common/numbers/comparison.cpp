// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "examples/common/numbers/comparison.hpp"
#include "examples/common/numbers/head_regions.hpp"
#include "examples/common/numbers/trajectory.hpp"

namespace qkgeom {

namespace detail {

QKGEOM_INLINE compared_number number_of(std::string name, const head_values& column,
                                        const std::vector<std::size_t>& heads, head_statistic statistic) {
  const auto whole = over_heads(column, heads, statistic);
  compared_number n{std::move(name), whole.value, {}, whole.head_error};
  if (!std::isnan(whole.error)) n.without = replicates_of(column, heads, statistic);
  return n;
}

/// Share of the heads for which `in(head, block)` holds; block -1: nothing left out.
template <class In>
compared_number share_number(std::string name, const std::vector<std::size_t>& heads, std::size_t blocks,
                             const In& in) {
  const auto share = [&](index_t block) { return share_of(heads, [&](std::size_t h) { return in(h, block); }); };
  compared_number n{std::move(name), share(-1), {}, {}};
  n.head_error = share_error(n.value, heads.size());
  for (std::size_t b = 0; b < blocks; ++b) n.without.push_back(share(static_cast<index_t>(b)));
  return n;
}

QKGEOM_INLINE std::vector<std::pair<std::string, region_values>> compared_regions(
    const model_report& report, const std::vector<double>& token_edges) {
  std::vector<std::pair<std::string, region_values>> regions;
  const auto add = [&](const char* kind, const std::vector<double>& edges) {
    for (std::size_t i = 0; i + 1 < edges.size(); ++i)
      regions.emplace_back(kind, values_in_region(report, edges[i], edges[i + 1]));
  };
  add("quintile", equal_bins(report.context_length, 5));
  add("decile", equal_bins(report.context_length, 10));
  add("length", length_bins(report.context_length));
  add("tokens", token_edges);
  return regions;
}

QKGEOM_INLINE std::vector<compared_component> compared_components(const model_report& report,
                                                                  const std::vector<std::size_t>& heads,
                                                                  std::size_t most) {
  const auto& geometry = report.heads.at(0).geometry;
  const std::size_t n = std::min(most, report.heads[0].pca.r_q.size());
  std::vector<compared_component> all;
  for (std::size_t j = 0; j < n; ++j) {
    const auto number = [&](const char* name, std::vector<double> pca_result::*values) {
      head_values column{name, {}, std::vector<std::vector<double>>(geometry.without.size())};
      for (const auto& h : report.heads) {
        column.value.push_back((h.pca.*values)[j]);
        for (std::size_t b = 0; b < column.without.size(); ++b)
          column.without[b].push_back((h.geometry.without[b].pca.*values)[j]);
      }
      return number_of(name, column, heads, head_statistic::mean_abs);
    };
    all.push_back({number("abs_r_q", &pca_result::r_q), number("abs_r_k", &pca_result::r_k),
                   number("explained_variance", &pca_result::explained_variance)});
  }
  return all;
}

}  // namespace detail

QKGEOM_INLINE const std::vector<headline_column>& headline_columns() {
  using enum head_statistic;
  static const std::vector<headline_column> columns = {{"ap_overall", "ap_overall", mean},
                                                       {"ap_first_20pct", "ap_first_20pct", mean},
                                                       {"ap_last_20pct", "ap_last_20pct", mean},
                                                       {"ap_drop", "ap_drop", mean},
                                                       {"ap_empirical_unbiased", "ap_empirical_unbiased", mean},
                                                       {"ev_pc0", "ev_pc0", mean},
                                                       {"abs_r_q_pc0", "r_q_pc0", mean_abs},
                                                       {"abs_r_k_pc0", "r_k_pc0", mean_abs},
                                                       {"q_linear_share", "q_linear_share", mean},
                                                       {"k_linear_share", "k_linear_share", mean},
                                                       {"abs_r_q_a", "r_q_a", mean_abs},
                                                       {"abs_r_k_a", "r_k_a", mean_abs},
                                                       {"abs_mu_q_a", "mu_q_a", mean_abs},
                                                       {"abs_alpha_k", "alpha_k", mean_abs},
                                                       {"abs_alpha_k_context", "alpha_k_context", mean_abs},
                                                       {"bias_strength", "bias_strength", mean},
                                                       {"abs_bias_strength", "bias_strength", mean_abs},
                                                       {"bias_context", "bias_context", mean},
                                                       {"abs_bias_context", "bias_context", mean_abs},
                                                       {"bias_context_in_sd", "bias_context_in_sd", mean},
                                                       {"abs_bias_context_in_sd", "bias_context_in_sd", mean_abs},
                                                       {"separation_strength", "separation_strength", mean},
                                                       {"plane_var_fraction", "plane_var_fraction", mean},
                                                       {"bias_strength_logits", "bias_strength_logits", mean},
                                                       {"abs_bias_strength_logits", "bias_strength_logits", mean_abs},
                                                       {"bias_context_logits", "bias_context_logits", mean},
                                                       {"abs_bias_context_logits", "bias_context_logits", mean_abs}};
  return columns;
}

QKGEOM_INLINE head_estimate difference_of(const compared_number& a, const compared_number& b, bool paired) {
  head_estimate d{a.value - b.value};
  if (std::isnan(d.value)) return d;
  d.head_error = std::hypot(a.head_error, b.head_error);
  if (!paired || a.without.size() != b.without.size()) {
    d.set_error(independent_difference(jackknife(a.value, a.without), jackknife(b.value, b.without)));
    return d;
  }
  std::vector<double> without;
  const auto of = [](const compared_number& x, std::size_t i) {
    return std::isnan(x.without[i]) ? x.value : x.without[i];
  };
  for (std::size_t i = 0; i < a.without.size(); ++i)
    if (!std::isnan(a.without[i]) || !std::isnan(b.without[i])) without.push_back(of(a, i) - of(b, i));
  d.set_error(jackknife(d.value, without));
  return d;
}

QKGEOM_INLINE std::vector<compared_number> headline_numbers(const trajectory_point& point,
                                                            const std::vector<std::size_t>& heads) {
  std::vector<compared_number> all;
  for (const auto& c : headline_columns())
    all.push_back(detail::number_of(c.name, point.column(c.column), heads, c.statistic));
  const auto& bias = point.column("bias_strength");
  all.push_back(detail::share_number("share_positive_bias", heads, bias.without.size(), [&](std::size_t h, index_t b) {
    return (b < 0 ? bias.value : bias.without[b])[h] > 0;
  }));
  for (const head_class c : all_head_classes)
    all.push_back(detail::share_number(
        "share_" + std::string(name_of(c)), heads, point.classes_without.size(),
        [&](std::size_t h, index_t b) { return (b < 0 ? point.classes : point.classes_without[b])[h] == c; }));
  return all;
}

namespace detail {

/// "a 128, b 512": a number of each model.
template <class Value>
std::string by_model(const std::vector<compared_model>& models, const Value& value) {
  std::string words;
  for (const auto& m : models) words += (words.empty() ? "" : ", ") + m.label + " " + std::to_string(value(m));
  return words;
}

}  // namespace detail

QKGEOM_INLINE std::vector<report_note> notes_of(const std::vector<compared_model>& models) {
  std::vector<report_note> notes;
  const auto differ = [&](auto value) {
    return std::any_of(models.begin(), models.end(), [&](const auto& m) { return value(m) != value(models[0]); });
  };
  const auto width = [](const compared_model& m) { return m.bucket_size; };
  const auto length = [](const compared_model& m) { return m.context_length; };
  const auto documents = [](const compared_model& m) { return m.documents; };
  const auto share = [](const compared_model& m) {
    return static_cast<double>(m.bucket_size) / static_cast<double>(m.context_length);
  };
  if (differ(width) && differ(share))
    notes.push_back({"buckets_differ",
                     "query buckets differ in width, tokens: " + detail::by_model(models, width) +
                         ", and in their share of the context: plasticity grows with the width; --bucket-size makes "
                         "them alike",
                     "query buckets differ"});
  if (differ(length))
    notes.push_back({"contexts_differ",
                     "contexts differ in length, tokens: " + detail::by_model(models, length) +
                         "; head classes, bias × context and AP_drop depend on it",
                     "contexts differ"});
  if (differ(documents))
    notes.push_back({"documents_differ",
                     "documents differ in number: " + detail::by_model(models, documents) +
                         "; differences take them for independent",
                     "documents differ"});
  return notes;
}

QKGEOM_INLINE compared_model compare_by(const model_report& report, std::string label, std::string family,
                                        std::vector<std::string> document_ids, const std::vector<double>& token_edges) {
  const auto point = point_of(report, label);
  require(!report.heads[0].profiles.empty(), "model ", label, ": models are compared by plasticity too");
  constexpr std::size_t components = 10;
  compared_model m{std::move(label),
                   std::move(family),
                   report.context_length,
                   report.buckets.count() > 0 ? report.buckets.end(0) - report.buckets.start(0) : 0,
                   report.rope_stage,
                   point.blocks.document.size(),
                   std::move(document_ids),
                   {},
                   {},
                   detail::profile_documents(report),
                   point.blocks,
                   report.notes,
                   {},
                   false};
  const auto regions = detail::compared_regions(report, token_edges);
  for (const auto& [name, heads] : head_groups(report.heads)) {
    compared_group g{name, static_cast<index_t>(heads.size()), headline_numbers(point, heads), {}, {}};
    for (const auto& [kind, region] : regions)
      g.bins.push_back(
          {kind, region.start, region.end,
           detail::number_of("plasticity", {"plasticity", region.value, region.without}, heads, head_statistic::mean)});
    g.components = detail::compared_components(report, heads, components);
    m.groups.push_back(std::move(g));
  }
  for (const auto& h : report.heads)
    m.heads.push_back({h.rope, h.pca.r_q[0], h.pca.r_k[0], h.rotation.bias.strength, h.rotation.bias.context,
                       h.rotation.separation_strength, h.rotation.bias.context_logits});
  return m;
}

}  // namespace qkgeom
