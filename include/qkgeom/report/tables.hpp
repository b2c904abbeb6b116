// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

/// Every function here writes one CSV file with the field's column names; null is an empty field. The file appears
/// whole.

namespace detail {

using columns = std::vector<std::string>;

inline columns joined(columns names, std::initializer_list<const std::vector<head_column>*> more) {
  for (const auto* list : more)
    for (const auto& c : *list) names.push_back(c.name);
  return names;
}

inline void add_values(csv_writer& csv, const head_report& h, const std::vector<head_column>& list) {
  for (const auto& c : list) csv.add(c.value(h));
}

}  // namespace detail

/// qk.csv: layer,head,pc,r_q,r_k,explained_variance, a row a component.
inline void write_qk_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(path, {"layer", "head", "pc", "r_q", "r_k", "explained_variance"});
  for (const auto& h : report.heads)
    for (std::size_t j = 0; j < h.pca.r_q.size(); ++j)
      csv.row(h.layer, h.q_head, j, h.pca.r_q[j], h.pca.r_k[j], h.pca.explained_variance[j]);
  csv.commit();
}

/// rotated.csv: a row a head with the rotation's numbers.
inline void write_rotated_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(path, detail::joined({"layer", "head", "k_head"}, {&rotation_columns()}));
  for (const auto& h : report.heads) {
    csv.add(h.layer).add(h.q_head).add(h.k_head);
    detail::add_values(csv, h, rotation_columns());
    csv.end_row();
  }
  csv.commit();
}

/// heads.csv: a row a head, all analyses side by side.
inline void write_heads_csv(const std::filesystem::path& path, const model_report& report) {
  auto names = detail::joined({"layer", "q_head", "k_head", "rope", "window", "head_class"},
                              {&pca_columns(), &rotation_columns()});
  names.insert(names.end(), {"covariance", "pairs"});
  csv_writer csv(path, detail::joined(std::move(names), {&plasticity_columns()}));
  for (const auto& h : report.heads) {
    csv.add(h.layer).add(h.q_head).add(h.k_head).add(h.rope).add(h.window).add(name_of(h.pca.cls));
    detail::add_values(csv, h, pca_columns());
    detail::add_values(csv, h, rotation_columns());
    csv.add(h.profiles[0].covariance).add(h.summaries[0].pairs);
    detail::add_values(csv, h, plasticity_columns());
    csv.end_row();
  }
  csv.commit();
}

/// profile.csv: a row a query bucket, head and model; `empirical` is the plug-in form, `empirical_unbiased` n/(n-1)
/// times it. `sampling_error` is what drawing pairs adds, 0 where all were used.
inline void write_profile_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(path, {"layer", "q_head", "q_bucket", "start", "end", "plasticity", "standard_error", "pairs",
                        "queries", "covariance", "sampling_error"});
  const auto write = [&](const head_report& h, const plasticity_profile_result& p, std::string_view name) {
    for (std::size_t b = 0; b < p.buckets.size(); ++b) {
      const auto& v = p.buckets[b];
      csv.row(h.layer, h.q_head, b, v.start, v.end, v.plasticity, v.standard_error, v.pairs, v.queries, name,
              v.sampling_error);
    }
  };
  for (const auto& h : report.heads) {
    for (const auto& p : h.profiles) write(h, p, p.covariance);
    if (!h.empirical) continue;
    write(h, *h.empirical, "empirical");
    write(h, unbiased(*h.empirical), "empirical_unbiased");
  }
  csv.commit();
}

/// heatmap.csv: cells with pairs; distances in tokens, the cell's lower edge.
inline void write_heatmap_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(path, {"layer", "q_head", "key_distance", "query_distance", "plasticity", "pairs"});
  for (const auto& h : report.heads) {
    if (h.profiles.empty()) continue;
    const auto& map = h.profiles[0].heatmap;
    for (index_t i = 0; i < map.width; ++i)
      for (index_t j = 0; j < map.width; ++j)
        if (const double pairs = map.weight[static_cast<std::size_t>(i * map.width + j)]; pairs > 0)
          csv.row(h.layer, h.q_head, i * map.cell, j * map.cell, map.mean(i, j), pairs);
  }
  csv.commit();
}

/// bins.csv: means of the headline profile over quintiles, deciles and length bins; start and end in tokens.
inline void write_bins_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(path, {"layer", "q_head", "kind", "start", "end", "plasticity", "standard_error"});
  const std::pair<const char*, std::vector<double>> kinds[] = {{"quintile", equal_bins(report.context_length, 5)},
                                                               {"decile", equal_bins(report.context_length, 10)},
                                                               {"length", length_bins(report.context_length)}};
  for (const auto& h : report.heads)
    for (const auto& [kind, edges] : kinds)
      for (const auto& bin : bin_means(h.profiles[0], edges))
        csv.row(h.layer, h.q_head, kind, bin.start, bin.end, bin.plasticity.value, bin.plasticity.error);
  csv.commit();
}

/// model_report.csv: one row, means over heads of the headline summaries and of the ten deciles.
inline void write_model_report_csv(const std::filesystem::path& path, const model_report& report) {
  detail::columns names{"model", "ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop"};
  for (int i = 1; i <= 10; ++i) names.push_back("ap_decile_" + std::to_string(i));
  csv_writer csv(path, names);
  const auto all = summarize_heads(report, report.model, [](const head_report&) { return true; });
  csv.add(report.model).add(all.overall.value).add(all.first20.value).add(all.last20.value).add(all.drop.value);
  std::vector<double> sum(10), count(10);
  for (const auto& h : report.heads) {
    const auto bins = bin_means(h.profiles[0], equal_bins(report.context_length, 10));
    for (std::size_t i = 0; i < 10; ++i)
      if (!std::isnan(bins[i].plasticity.value)) {
        sum[i] += bins[i].plasticity.value;
        ++count[i];
      }
  }
  for (std::size_t i = 0; i < 10; ++i) csv.add(count[i] > 0 ? sum[i] / count[i] : std::nan(""));
  csv.end_row();
  csv.commit();
}

}  // namespace qkgeom
