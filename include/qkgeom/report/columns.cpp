// SPDX-License-Identifier: MIT
#include "qkgeom/report/columns.hpp"

#include <algorithm>

namespace qkgeom {

const std::vector<head_column>& rotation_columns() {
  static const std::vector<head_column> columns = [] {
    std::vector<head_column> list;
    for (const auto& n : rotation_numbers)
      list.push_back({n.name, [n](const head_report& h) { return n.of(h.rotation); }});
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
      {"ev_pc0", [](const head_report& h) { return h.pca.explained_variance[0]; }},
      {"r_q_pc0", [](const head_report& h) { return h.pca.r_q[0]; }},
      {"r_k_pc0", [](const head_report& h) { return h.pca.r_k[0]; }},
      {"q_linear_share", [](const head_report& h) { return h.pca.q_linear_share; }},
      {"k_linear_share", [](const head_report& h) { return h.pca.k_linear_share; }},
      {"q_linear_share_pc10", [](const head_report& h) { return share_of_ten(h.pca, h.pca.r_q); }},
      {"k_linear_share_pc10", [](const head_report& h) { return share_of_ten(h.pca, h.pca.r_k); }}};
  return columns;
}

const std::vector<head_column>& plasticity_columns() {
  static const std::vector<head_column> columns = {
      {"ap_overall", [](const head_report& h) { return h.summaries[0].overall.value; }},
      {"ap_first_20pct", [](const head_report& h) { return h.summaries[0].first20.value; }},
      {"ap_last_20pct", [](const head_report& h) { return h.summaries[0].last20.value; }},
      {"ap_drop", [](const head_report& h) { return h.summaries[0].drop.value; }},
      {"ap_empirical",
       [](const head_report& h) { return h.empirical_summary ? h.empirical_summary->overall.value : std::nan(""); }},
      {"ap_empirical_unbiased",
       [](const head_report& h) { return h.empirical_unbiased ? h.empirical_unbiased->overall.value : std::nan(""); }},
      {"ap_overall_error", [](const head_report& h) { return h.summaries[0].overall.error; }},
      {"ap_first_20pct_error", [](const head_report& h) { return h.summaries[0].first20.error; }},
      {"ap_last_20pct_error", [](const head_report& h) { return h.summaries[0].last20.error; }},
      {"ap_drop_error", [](const head_report& h) { return h.summaries[0].drop.error; }}};
  return columns;
}

void add_estimate_names(std::vector<std::string>& names, const std::string& name) {
  names.insert(names.end(), {name, name + "_error"});
}

void add_head_estimate_names(std::vector<std::string>& names, const std::string& name) {
  names.insert(names.end(), {name, name + "_error", name + "_head_error"});
}

}  // namespace qkgeom
