// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/study/head_regions.hpp"
#include "qkgeom/study/trajectory.hpp"

namespace qkgeom {

/// A number of a group of heads with its values as each document (or block of them) is left out, so that differences
/// from other numbers have errors too.
struct compared_number {
  std::string name;
  double value = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> without;  ///< (documents or blocks), NaN: it has no say; empty: no error is known
  double head_error = std::numeric_limits<double>::quiet_NaN();

  head_estimate estimate() const { return {value, jackknife_error(without), head_error}; }
};

/// a - b. `paired`: both come from the same documents, and leave out the same one at once; else these are independent.
/// The heads of both are independent draws. Null where either is.
inline head_estimate difference_of(const compared_number& a, const compared_number& b, bool paired) {
  head_estimate d{a.value - b.value};
  if (std::isnan(d.value)) return d;
  d.head_error = std::hypot(a.head_error, b.head_error);
  if (!paired || a.without.size() != b.without.size()) {
    d.error = std::hypot(a.estimate().error, b.estimate().error);
    return d;
  }
  std::vector<double> without;
  const auto of = [](const compared_number& x, std::size_t i) {
    return std::isnan(x.without[i]) ? x.value : x.without[i];
  };
  for (std::size_t i = 0; i < a.without.size(); ++i)
    if (!std::isnan(a.without[i]) || !std::isnan(b.without[i])) without.push_back(of(a, i) - of(b, i));
  d.error = jackknife_error(without);
  return d;
}

/// Which column of heads.csv a model is summed up by, and how over heads. `name` is that in tables.
struct headline_column {
  std::string name, column;
  head_statistic statistic;
};
inline const std::vector<headline_column>& headline_columns() {
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
                                                       {"plane_var_fraction", "plane_var_fraction", mean}};
  return columns;
}

namespace detail {

inline compared_number number_of(std::string name, const head_values& column, const std::vector<std::size_t>& heads,
                                 head_statistic statistic) {
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

}  // namespace detail

/// The headline numbers of a group of heads: `headline_columns`, the share of heads with a positive bias, and the
/// shares of the head classes.
inline std::vector<compared_number> headline_numbers(const trajectory_point& point,
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

/// Mean plasticity over a stretch of the context, of the headline query model.
struct compared_bin {
  std::string kind;           ///< quintile, decile, length or tokens
  double start = 0, end = 0;  ///< tokens
  compared_number plasticity;
};

/// Means over heads of |r_q|, |r_k| and the share of variance along one principal component.
struct compared_component {
  compared_number abs_r_q, abs_r_k, explained_variance;
};

/// A group of a model's heads in numbers.
struct compared_group {
  std::string name;  ///< all, rope, nope
  index_t heads = 0;
  std::vector<compared_number> numbers;
  std::vector<compared_bin> bins;
  std::vector<compared_component> components;

  /// Throws `error` if there is no number of that name.
  const compared_number& number(const std::string& wanted) const {
    for (const auto& n : numbers)
      if (n.name == wanted) return n;
    fail("there is no number called ", wanted, " to compare models by");
  }
};

/// One head as figures of several models show it.
struct compared_head {
  bool rope = true;
  double r_q_pc0 = 0, r_k_pc0 = 0, bias_strength = 0, bias_context = 0, separation_strength = 0;
};

/// What is kept of a model beside others: no profiles, no values of single heads but a few.
struct compared_model {
  std::string label, family;
  index_t context_length = 0;
  std::size_t documents = 0;
  std::vector<std::string> document_ids;  ///< of the captures; empty: not known
  std::vector<compared_group> groups;     ///< all; rope and nope where the model has both
  std::vector<compared_head> heads;
  std::vector<std::int32_t> profile_documents{};  ///< numbers of those that plasticity leaves out
  document_blocks blocks{};                       ///< those that PCA and rotation leave out

  /// Null if the model has no such heads.
  const compared_group* group(const std::string& name) const {
    for (const auto& g : groups)
      if (g.name == name) return &g;
    return nullptr;
  }
};

/// Whether errors of differences leave the same document out of both: the captures are of the same ones, and rows of
/// the same ones were drawn.
inline bool same_documents(const compared_model& a, const compared_model& b) {
  return !a.document_ids.empty() && a.document_ids == b.document_ids && a.profile_documents == b.profile_documents &&
         a.blocks == b.blocks;
}

namespace detail {

inline std::vector<std::pair<std::string, region_values>> compared_regions(const model_report& report,
                                                                           const std::vector<double>& token_edges) {
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

inline std::vector<compared_component> compared_components(const model_report& report,
                                                           const std::vector<std::size_t>& heads, std::size_t most) {
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

/// What is kept of a report that `analyse` made with PCA, rotation, plasticity and `geometry_blocks`. `token_edges`:
/// bins of the context in tokens, beside quintiles, deciles and doubling lengths. Throws if the report has no heads.
inline compared_model compare_by(const model_report& report, std::string label, std::string family,
                                 std::vector<std::string> document_ids, const std::vector<double>& token_edges) {
  const auto point = point_of(report, label);
  require(!report.heads[0].profiles.empty(), "model ", label, ": models are compared by plasticity too");
  constexpr std::size_t components = 10;
  compared_model m{std::move(label),
                   std::move(family),
                   report.context_length,
                   point.blocks.document.size(),
                   std::move(document_ids),
                   {},
                   {},
                   detail::documents_of(report),
                   point.blocks};
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
                       h.rotation.separation_strength});
  return m;
}

}  // namespace qkgeom
