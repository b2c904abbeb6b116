// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// A named column of the head tables; NaN is written as null.
struct head_column {
  std::string name, meaning;
  std::function<double(const head_report&)> value;
};

/// A number of the rotation, for a `head_column`.
struct rotation_number {
  const char *name, *meaning;
  double (*of)(const rotation_result&);
};
/// All numbers of the rotation, in the order of the columns.
inline constexpr rotation_number rotation_numbers[] = {
    {"r_q_a", "correlation of queries with position along the drift axis a", [](const auto& r) { return r.q.r; }},
    {"r_k_a", "correlation of keys with position along a", [](const auto& r) { return r.k.r; }},
    {"alpha_q", "slope of queries along a, per token", [](const auto& r) { return r.q.alpha; }},
    {"alpha_k", "slope of keys along a, per token", [](const auto& r) { return r.k.alpha; }},
    {"mu_q_a", "mean of queries along a", [](const auto& r) { return r.q.mu; }},
    {"mu_k_a", "mean of keys along a", [](const auto& r) { return r.k.mu; }},
    {"mu_q_b", "mean of queries along the separation axis b", [](const auto& r) { return r.q.mu_b; }},
    {"mu_k_b", "mean of keys along b", [](const auto& r) { return r.k.mu_b; }},
    {"bias_strength", "mu_q_a alpha_k, score per token (4.6); above 0: later keys score higher",
     [](const auto& r) { return r.bias.strength; }},
    {"separation_strength", "b'Cb / tr C with C = Cov_Q + Cov_K + (mu_Q - mu_K)(mu_Q - mu_K)'",
     [](const auto& r) { return r.separation_strength; }},
    {"content_var_b", "mean of the two sides' variances along b", [](const auto& r) { return r.content_var_b; }},
    {"var_frac_a", "share of the pooled variance along a", [](const auto& r) { return r.var_frac_a; }},
    {"var_frac_b", "share of the pooled variance along b", [](const auto& r) { return r.var_frac_b; }},
    {"plane_var_fraction", "var_frac_a + var_frac_b", [](const auto& r) { return r.plane_var_fraction; }},
    {"residual_pos_r", "largest correlation of position with a direction off a: rounding",
     [](const auto& r) { return r.residual_pos_r; }},
    {"alpha_k_b", "slope of keys along b, per token", [](const auto& r) { return r.bias.alpha_k_b; }},
    {"bias_strength_b", "mu_q_b alpha_k_b, score per token", [](const auto& r) { return r.bias.strength_b; }},
    {"cos_a_beta_q", "cosine of a and the queries' own drift", [](const auto& r) { return r.q.cos_a_beta; }},
    {"cos_a_beta_k", "cosine of a and the keys' own drift", [](const auto& r) { return r.k.cos_a_beta; }},
    {"q_drift_off_a", "share of the square of the queries' own drift that is off a",
     [](const auto& r) { return r.q.drift_off_a; }},
    {"k_drift_off_a", "share of the square of the keys' own drift that is off a",
     [](const auto& r) { return r.k.drift_off_a; }},
    {"alpha_q_context", "alpha_q times L", [](const auto& r) { return r.q.alpha_context; }},
    {"alpha_k_context", "alpha_k times L", [](const auto& r) { return r.k.alpha_context; }},
    {"bias_context", "bias_strength times L", [](const auto& r) { return r.bias.context; }},
    {"alpha_k_b_context", "alpha_k_b times L", [](const auto& r) { return r.bias.alpha_k_b_context; }},
    {"bias_b_context", "bias_strength_b times L", [](const auto& r) { return r.bias.context_b; }},
    {"score_sd", "standard deviation of the score difference of two keys of one document, queries drawn too",
     [](const auto& r) { return r.score_sd; }},
    {"score_sd_mean_query", "standard deviation of the score difference of two keys of one document, mean query",
     [](const auto& r) { return r.score_sd_mean_query; }},
    {"bias_context_in_sd", "bias_context over score_sd; 0 if score_sd is 0",
     [](const auto& r) { return r.bias.context_in_sd; }},
    {"bias_context_in_sd_mean_query", "bias_context over score_sd_mean_query; 0 if that deviation is 0",
     [](const auto& r) { return r.bias.context_in_sd_mean_query; }},
    {"bias_strength_logits", "bias_strength in logits: times `score_scale`, by default over the root of the head size",
     [](const auto& r) { return r.bias.strength_logits; }},
    {"bias_context_logits", "bias_context in logits", [](const auto& r) { return r.bias.context_logits; }},
    {"score_sd_logits", "score_sd in logits", [](const auto& r) { return r.score_sd_logits; }}};

/// Returns the columns of the rotation.
const std::vector<head_column>& rotation_columns();

/// Returns the columns of PCA, for heads that have one. The linear shares over pc10 are sum_j ev_j r_j^2 over the first
/// 10 components: weighted by the pooled variance.
const std::vector<head_column>& pca_columns();

/// Returns the columns of the headline profile's aggregates, their errors, and the observed queries' aggregates.
const std::vector<head_column>& plasticity_columns();

/// Meaning of the column `group`.
inline constexpr const char* group_meaning = "heads: `all`, and `rope` and `nope` where the model has both";

/// Returns columns that name the head of a row: the first N of layer, q_head, k_head and rope, of `head(row)`.
template <int N, class Row, class Head>
table_columns<Row> head_columns(Head head) {
  table_columns<Row> c;
  const auto of = c.of(head);
  of.add("layer", "number of the layer", [](auto& h) { return h.layer; });
  of.add("q_head", "number of the query head", [](auto& h) { return h.q_head; });
  if constexpr (N > 2) of.add("k_head", "number of the query head's key head", [](auto& h) { return h.k_head; });
  if constexpr (N > 3) of.add("rope", "1 in layers with rotary embedding, else 0", [](auto& h) { return h.rope; });
  return c;
}

/// Adds the columns start and end of a stretch of the context, `stretch(row)`.
template <class Row, class Stretch>
void add_stretch(table_columns<Row>& c, const std::string& what, Stretch stretch) {
  c.of(stretch).add("start", "first token of the " + what, [](auto& s) { return s.start; });
  c.of(stretch).add("end", "end of the " + what + ", excluded, tokens", [](auto& s) { return s.end; });
}

}  // namespace qkgeom
