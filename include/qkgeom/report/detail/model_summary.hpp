// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkgeom/report/model_summary.hpp"
#include "qkgeom/stats/quantile.hpp"

namespace qkgeom {

namespace detail {

/// Mean over heads of (overall, first, last, drop) with a jackknife that leaves a document out of all heads at once.
QKGEOM_INLINE std::array<estimate, 4> mean_over_heads(const std::vector<const plasticity_profile_result*>& profiles,
                                                      index_t context_length) {
  std::vector<std::int32_t> documents;
  std::vector<profile_means> of_head;
  std::vector<std::array<double, 4>> whole_values;  // (heads)
  for (const auto* p : profiles) {
    of_head.emplace_back(*p);
    whole_values.push_back(of_head.back().summary(context_length));
    documents.insert(documents.end(), p->documents.begin(), p->documents.end());
  }
  std::sort(documents.begin(), documents.end());
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  const auto means = [](const std::vector<std::array<double, 4>>& values) {
    std::array<double, 4> sum{}, count{};
    for (const auto& v : values)
      for (std::size_t i = 0; i < 4; ++i)
        if (!std::isnan(v[i])) {
          sum[i] += v[i];
          ++count[i];
        }
    for (std::size_t i = 0; i < 4; ++i)
      sum[i] = count[i] > 0 ? sum[i] / count[i] : std::numeric_limits<double>::quiet_NaN();
    return sum;
  };
  std::array<std::vector<double>, 4> without;
  for (const std::int32_t e : documents) {
    if (e < 0) continue;
    auto values = whole_values;
    std::array<bool, 4> changes{};  // documents that change no head's number are left out of the jackknife
    for (std::size_t h = 0; h < profiles.size(); ++h) {
      const auto& ids = profiles[h]->documents;
      const auto at = std::find(ids.begin(), ids.end(), e);
      if (at == ids.end()) continue;
      values[h] = of_head[h].summary(context_length, at - ids.begin());
      for (std::size_t i = 0; i < 4; ++i) changes[i] |= differs(values[h][i], whole_values[h][i]);
    }
    const auto m = means(values);
    for (std::size_t i = 0; i < 4; ++i)
      if (changes[i]) without[i].push_back(m[i]);
  }
  const auto whole = means(whole_values);
  std::array<estimate, 4> result;
  for (std::size_t i = 0; i < 4; ++i) result[i] = jackknife(whole[i], without[i]);
  return result;
}

}  // namespace detail

QKGEOM_INLINE group_summary summarize_heads(const model_report& report, std::string name,
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

}  // namespace qkgeom
