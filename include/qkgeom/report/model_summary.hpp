// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// A group of heads in numbers: all heads of the model, those of its RoPE layers, those of its NoPE layers.
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

/// Numbers of some heads of a report, by index.
QKGEOM_INLINE group_summary summarize_heads(const model_report& report, std::string name,
                                            const std::vector<std::size_t>& heads);

/// Numbers of each of `head_groups`: all heads, then RoPE and NoPE layers apart where the model has both.
inline std::vector<group_summary> summarize_model(const model_report& report) {
  std::vector<group_summary> groups;
  for (const auto& [name, heads] : head_groups(report.heads)) groups.push_back(summarize_heads(report, name, heads));
  return groups;
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/report/detail/model_summary.hpp"
#endif
