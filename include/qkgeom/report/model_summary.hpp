// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/stats/quantile.hpp"

namespace qkgeom {

/// A set of heads in numbers: the model, its RoPE layers, its NoPE layers.
struct group_summary {
  std::string name;
  index_t heads = 0;
  std::array<double, 5> class_share{};                                    ///< in the order of `all_head_classes`
  double abs_r_q_pc0 = 0, abs_r_k_pc0 = 0, abs_r_q_a = 0, abs_r_k_a = 0;  ///< means over heads
  double positive_bias_share = 0;                                         ///< share of heads with bias_strength > 0
  double mean_bias = 0, mean_abs_bias = 0, median_bias = 0;
  estimate overall, first20, last20, drop;  ///< headline model, mean over heads; error: jackknife over documents
  estimate empirical_overall;               ///< observed queries, unbiased form
};

namespace detail {

/// Mean over heads of (overall, first, last, drop) with a jackknife that leaves a document out of all heads at once.
inline std::array<estimate, 4> mean_over_heads(const std::vector<const plasticity_profile_result*>& profiles,
                                               index_t context_length) {
  constexpr std::int32_t none = -2;
  std::vector<std::int32_t> documents;
  std::vector<std::vector<std::pair<double, double>>> totals;
  for (const auto* p : profiles) {
    totals.push_back(bucket_totals(*p));
    documents.insert(documents.end(), p->documents.begin(), p->documents.end());
  }
  std::sort(documents.begin(), documents.end());
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  std::vector<std::array<double, 4>> whole_values;  // (heads)
  std::array<bool, 4> has_a_say{};                  // the document left out changes a head's number
  const auto means = [&](std::int32_t left_out) {
    std::array<double, 4> sum{}, count{};
    has_a_say = {};
    for (std::size_t h = 0; h < profiles.size(); ++h) {
      const auto& ids = profiles[h]->documents;
      const auto at = std::find(ids.begin(), ids.end(), left_out);
      const auto values = summary_values(*profiles[h], context_length, bucket_weight::queries,
                                         at == ids.end() ? -1 : at - ids.begin(), totals[h]);
      if (left_out == none) whole_values.push_back(values);
      for (std::size_t i = 0; i < 4; ++i) {
        has_a_say[i] |= differs(values[i], whole_values[h][i]);
        if (std::isnan(values[i])) continue;
        sum[i] += values[i];
        ++count[i];
      }
    }
    for (std::size_t i = 0; i < 4; ++i)
      sum[i] = count[i] > 0 ? sum[i] / count[i] : std::numeric_limits<double>::quiet_NaN();
    return sum;
  };
  const auto whole = means(none);
  std::array<std::vector<double>, 4> without;
  for (const std::int32_t e : documents) {
    if (e < 0) continue;
    const auto m = means(e);
    for (std::size_t i = 0; i < 4; ++i)
      if (has_a_say[i]) without[i].push_back(m[i]);
  }
  std::array<estimate, 4> result;
  for (std::size_t i = 0; i < 4; ++i) result[i] = {whole[i], jackknife_error(without[i])};
  return result;
}

}  // namespace detail

/// Numbers of some heads of a report, by index.
inline group_summary summarize_heads(const model_report& report, std::string name,
                                     const std::vector<std::size_t>& heads) {
  group_summary g;
  g.name = std::move(name);
  std::vector<double> bias;
  std::vector<const plasticity_profile_result*> profiles;
  std::vector<plasticity_profile_result> observed;
  g.heads = static_cast<index_t>(heads.size());
  for (const std::size_t i : heads) {
    const auto& h = report.heads[i];
    if (!h.pca.r_q.empty()) {
      g.class_share[static_cast<std::size_t>(h.pca.head_class)] += 1;
      g.abs_r_q_pc0 += std::abs(h.pca.r_q[0]);
      g.abs_r_k_pc0 += std::abs(h.pca.r_k[0]);
      g.abs_r_q_a += std::abs(h.rotation.q.r);
      g.abs_r_k_a += std::abs(h.rotation.k.r);
      bias.push_back(h.rotation.bias.strength);
    }
    if (!h.profiles.empty()) profiles.push_back(&h.profiles[0]);
    if (h.empirical) observed.push_back(unbiased(*h.empirical));
  }
  const double n = std::max<double>(1, static_cast<double>(g.heads));
  for (double* x : {&g.abs_r_q_pc0, &g.abs_r_k_pc0, &g.abs_r_q_a, &g.abs_r_k_a}) *x /= n;
  for (double& s : g.class_share) s /= n;
  for (const double b : bias) {
    g.positive_bias_share += (b > 0) / n;
    g.mean_bias += b / n;
    g.mean_abs_bias += std::abs(b) / n;
  }
  g.median_bias = quantile(bias, 0.5);
  if (!profiles.empty()) {
    const auto m = detail::mean_over_heads(profiles, report.context_length);
    g.overall = m[0];
    g.first20 = m[1];
    g.last20 = m[2];
    g.drop = m[3];
  }
  if (!observed.empty()) {
    std::vector<const plasticity_profile_result*> seen;
    for (const auto& p : observed) seen.push_back(&p);
    g.empirical_overall = detail::mean_over_heads(seen, report.context_length)[0];
  }
  return g;
}

/// Numbers of each of `head_groups`: all heads, then RoPE and NoPE layers apart where the model has both.
inline std::vector<group_summary> summarize_model(const model_report& report) {
  std::vector<group_summary> groups;
  for (const auto& [name, heads] : head_groups(report.heads)) groups.push_back(summarize_heads(report, name, heads));
  return groups;
}

}  // namespace qkgeom
