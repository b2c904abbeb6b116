// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// A column of tables of heads and the number of a head that stands there; NaN is null.
struct head_column {
  std::string name;
  std::function<double(const head_report&)> value;
};

/// A number of the rotation and its column's name.
struct rotation_number {
  const char* name;
  double (*of)(const rotation_result&);
};
/// All of them, in the order of the columns.
inline constexpr rotation_number rotation_numbers[] = {
    {"r_q_a", [](const rotation_result& r) { return r.q.r; }},
    {"r_k_a", [](const rotation_result& r) { return r.k.r; }},
    {"alpha_q", [](const rotation_result& r) { return r.q.alpha; }},
    {"alpha_k", [](const rotation_result& r) { return r.k.alpha; }},
    {"mu_q_a", [](const rotation_result& r) { return r.q.mu; }},
    {"mu_k_a", [](const rotation_result& r) { return r.k.mu; }},
    {"mu_q_b", [](const rotation_result& r) { return r.q.mu_b; }},
    {"mu_k_b", [](const rotation_result& r) { return r.k.mu_b; }},
    {"bias_strength", [](const rotation_result& r) { return r.bias.strength; }},
    {"separation_strength", [](const rotation_result& r) { return r.separation_strength; }},
    {"content_var_b", [](const rotation_result& r) { return r.content_var_b; }},
    {"var_frac_a", [](const rotation_result& r) { return r.var_frac_a; }},
    {"var_frac_b", [](const rotation_result& r) { return r.var_frac_b; }},
    {"plane_var_fraction", [](const rotation_result& r) { return r.plane_var_fraction; }},
    {"residual_pos_r", [](const rotation_result& r) { return r.residual_pos_r; }},
    {"alpha_k_b", [](const rotation_result& r) { return r.bias.alpha_k_b; }},
    {"bias_strength_b", [](const rotation_result& r) { return r.bias.strength_b; }},
    {"cos_a_beta_q", [](const rotation_result& r) { return r.q.cos_a_beta; }},
    {"cos_a_beta_k", [](const rotation_result& r) { return r.k.cos_a_beta; }},
    {"q_drift_off_a", [](const rotation_result& r) { return r.q.drift_off_a; }},
    {"k_drift_off_a", [](const rotation_result& r) { return r.k.drift_off_a; }},
    {"alpha_q_context", [](const rotation_result& r) { return r.q.alpha_context; }},
    {"alpha_k_context", [](const rotation_result& r) { return r.k.alpha_context; }},
    {"bias_context", [](const rotation_result& r) { return r.bias.context; }},
    {"alpha_k_b_context", [](const rotation_result& r) { return r.bias.alpha_k_b_context; }},
    {"bias_b_context", [](const rotation_result& r) { return r.bias.context_b; }},
    {"score_sd", [](const rotation_result& r) { return r.score_sd; }},
    {"score_sd_mean_query", [](const rotation_result& r) { return r.score_sd_mean_query; }},
    {"bias_context_in_sd", [](const rotation_result& r) { return r.bias.context_in_sd; }},
    {"bias_context_in_sd_mean_query", [](const rotation_result& r) { return r.bias.context_in_sd_mean_query; }},
    {"bias_strength_logits", [](const rotation_result& r) { return r.bias.strength_logits; }},
    {"bias_context_logits", [](const rotation_result& r) { return r.bias.context_logits; }},
    {"score_sd_logits", [](const rotation_result& r) { return r.score_sd_logits; }}};

/// The numbers of the rotation.
const std::vector<head_column>& rotation_columns();

/// The numbers of PCA; for heads that have one. The linear shares over pc10 are sum_j ev_j r_j^2 over the first 10
/// components: weighed by the pooled variance.
const std::vector<head_column>& pca_columns();

/// The headline profile's aggregates, their standard errors, and the observed queries' own; for heads that have one.
const std::vector<head_column>& plasticity_columns();

/// Appends the column names of an `estimate`: NAME, NAME_error.
void add_estimate_names(std::vector<std::string>& names, const std::string& name);
/// Adds the fields of these columns to the row at hand.
inline void add_estimate(csv_writer& csv, const estimate& e) { csv.add(e.value).add(e.error); }

/// The same for a `head_estimate`, with a third column NAME_head_error.
void add_head_estimate_names(std::vector<std::string>& names, const std::string& name);
inline void add_estimate(csv_writer& csv, const head_estimate& e) { csv.add(e.value).add(e.error).add(e.head_error); }

}  // namespace qkgeom
