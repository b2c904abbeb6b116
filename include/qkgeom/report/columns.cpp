// SPDX-License-Identifier: MIT
#include "qkgeom/report/columns.hpp"

#include <algorithm>
#include <cmath>

namespace qkgeom {

const std::vector<head_column>& rotation_columns() {
  static const std::vector<head_column> columns = [] {
    std::vector<head_column> list;
    for (const auto& n : rotation_numbers)
      list.push_back({n.name, n.meaning, [of = n.of](const head_report& h) { return of(h.rotation); }});
    return list;
  }();
  return columns;
}

const std::vector<head_column>& pca_columns() {
  static constexpr auto share_of_ten = [](const pca_result& pca, const std::vector<double>& r) {
    double sum = 0;
    for (std::size_t j = 0; j < std::min<std::size_t>(10, r.size()); ++j)
      sum += pca.explained_variance[j] * r[j] * r[j];
    return sum;
  };
  static const std::vector<head_column> columns = {
      {"ev_pc0", "share of the pooled variance in component 0", [](auto& h) { return h.pca.explained_variance[0]; }},
      {"r_q_pc0", "correlation of queries with position along component 0", [](auto& h) { return h.pca.r_q[0]; }},
      {"r_k_pc0", "correlation of keys with position along component 0", [](auto& h) { return h.pca.r_k[0]; }},
      {"q_linear_share", "share of the queries' variance that is linear in position",
       [](auto& h) { return h.pca.q_linear_share; }},
      {"k_linear_share", "share of the keys' variance that is linear in position",
       [](auto& h) { return h.pca.k_linear_share; }},
      {"q_linear_share_pc10", "sum over the first ten components of explained variance times r^2 of queries",
       [](auto& h) { return share_of_ten(h.pca, h.pca.r_q); }},
      {"k_linear_share_pc10", "sum over the first ten components of explained variance times r^2 of keys",
       [](auto& h) { return share_of_ten(h.pca, h.pca.r_k); }}};
  return columns;
}

const std::vector<head_column>& plasticity_columns() {
  static const std::vector<head_column> columns = {
      {"ap_overall", "plasticity over the context; buckets weigh by their queries",
       [](auto& h) { return h.summaries[0].overall.value; }},
      {"ap_first_20pct", "plasticity over buckets whose middle lies in the first fifth of the context",
       [](auto& h) { return h.summaries[0].first20.value; }},
      {"ap_last_20pct", "plasticity over buckets whose middle lies in the last fifth",
       [](auto& h) { return h.summaries[0].last20.value; }},
      {"ap_drop", "ap_first_20pct less ap_last_20pct", [](auto& h) { return h.summaries[0].drop.value; }},
      {"ap_empirical", "ap_overall of the observed queries, plug-in; empty without `empirical` in `--covariance`",
       [](auto& h) { return h.empirical_summary ? h.empirical_summary->overall.value : std::nan(""); }},
      {"ap_empirical_unbiased", "n/(n-1) times ap_empirical",
       [](auto& h) { return h.empirical_unbiased ? h.empirical_unbiased->overall.value : std::nan(""); }},
      {"ap_overall_error", "standard error of ap_overall over documents",
       [](auto& h) { return h.summaries[0].overall.error; }},
      {"ap_first_20pct_error", "standard error of ap_first_20pct over documents",
       [](auto& h) { return h.summaries[0].first20.error; }},
      {"ap_last_20pct_error", "standard error of ap_last_20pct over documents",
       [](auto& h) { return h.summaries[0].last20.error; }},
      {"ap_drop_error", "standard error of ap_drop over documents", [](auto& h) { return h.summaries[0].drop.error; }}};
  return columns;
}

}  // namespace qkgeom
