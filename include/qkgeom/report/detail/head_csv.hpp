// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "qkgeom/core/error.hpp"
#include "qkgeom/report/csv/head_csv.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

namespace detail {

/// Throws, beginning with `table`, unless every head has PCA and rotation.
inline void require_geometry(const char* table, const std::vector<head_report>& heads) {
  for (const auto& h : heads)
    require(!h.pca.r_q.empty(), table, ": layer ", h.layer, " head ", h.q_head,
            " has no PCA and rotation (analysis_options::geometry)");
}

/// Throws, beginning with `table`, unless every head has the headline profile and its summary.
inline void require_plasticity(const char* table, const std::vector<head_report>& heads) {
  for (const auto& h : heads)
    require(!h.profiles.empty() && !h.summaries.empty(), table, ": layer ", h.layer, " head ", h.q_head,
            " has no profile (analysis_options::plasticity)");
}

inline std::vector<std::string> joined(std::vector<std::string> names,
                                       std::initializer_list<const std::vector<head_column>*> more) {
  for (const auto* list : more)
    for (const auto& c : *list) names.push_back(c.name);
  return names;
}

template <class Table>
void add_values(Table& csv, const head_report& h, const std::vector<head_column>& list) {
  for (const auto& c : list) csv.add(c.value(h));
}

inline void write_table(const std::filesystem::path& path, head_table table, const model_report& report) {
  csv_writer csv(path, std::move(table.columns));
  table.add_rows(csv, report);
  csv.commit();
}

}  // namespace detail

template <class Table>
void add_heads_rows(Table& csv, const model_report& report) {
  detail::require_geometry("heads.csv", report.heads);
  detail::require_plasticity("heads.csv", report.heads);
  for (const auto& h : report.heads) {
    csv.add(h.layer).add(h.q_head).add(h.k_head).add(h.rope).add(h.window).add(name_of(h.pca.head_class));
    detail::add_values(csv, h, pca_columns());
    detail::add_values(csv, h, rotation_columns());
    csv.add(h.profiles[0].covariance).add(h.summaries[0].pairs);
    detail::add_values(csv, h, plasticity_columns());
    csv.end_row();
  }
}

template <class Table>
void add_qk_rows(Table& csv, const model_report& report) {
  for (const auto& h : report.heads)
    for (std::size_t j = 0; j < h.pca.r_q.size(); ++j)
      csv.row(h.layer, h.q_head, j, h.pca.r_q[j], h.pca.r_k[j], h.pca.explained_variance[j]);
}

template <class Table>
void add_rotated_rows(Table& csv, const model_report& report) {
  detail::require_geometry("rotated.csv", report.heads);
  for (const auto& h : report.heads) {
    csv.add(h.layer).add(h.q_head).add(h.k_head);
    detail::add_values(csv, h, rotation_columns());
    csv.end_row();
  }
}

template <class Table>
void add_profile_rows(Table& csv, const model_report& report) {
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
}

template <class Table>
void add_heatmap_rows(Table& csv, const model_report& report) {
  for (const auto& h : report.heads) {
    if (h.profiles.empty()) continue;
    const auto& map = h.profiles[0].heatmap;
    for (index_t i = 0; i < map.width; ++i)
      for (index_t j = 0; j < map.width; ++j)
        if (const double pairs = map.weight[i * map.width + j]; pairs > 0)
          csv.row(h.layer, h.q_head, i * map.cell, j * map.cell, map.mean(i, j), pairs);
  }
}

template <class Table>
void add_bins_rows(Table& csv, const model_report& report) {
  detail::require_plasticity("bins.csv", report.heads);
  const std::pair<const char*, std::vector<double>> kinds[] = {{"quintile", equal_bins(report.context_length, 5)},
                                                               {"decile", equal_bins(report.context_length, 10)},
                                                               {"length", length_bins(report.context_length)}};
  for (const auto& h : report.heads)
    for (const auto& [kind, edges] : kinds)
      for (const auto& bin : bin_means(h.profiles[0], edges))
        csv.row(h.layer, h.q_head, kind, bin.start, bin.end, bin.plasticity.value, bin.plasticity.error);
}

inline head_table heads_table() {
  auto names = detail::joined({"layer", "q_head", "k_head", "rope", "window", "head_class"},
                              {&pca_columns(), &rotation_columns()});
  names.insert(names.end(), {"covariance", "pairs"});
  return {detail::joined(std::move(names), {&plasticity_columns()}), add_heads_rows<csv_writer>};
}
inline head_table qk_table() {
  return {{"layer", "head", "pc", "r_q", "r_k", "explained_variance"}, add_qk_rows<csv_writer>};
}
inline head_table rotated_table() {
  return {detail::joined({"layer", "head", "k_head"}, {&rotation_columns()}), add_rotated_rows<csv_writer>};
}
inline head_table profile_table() {
  return {{"layer", "q_head", "q_bucket", "start", "end", "plasticity", "standard_error", "pairs", "queries",
           "covariance", "sampling_error"},
          add_profile_rows<csv_writer>};
}
inline head_table heatmap_table() {
  return {{"layer", "q_head", "key_distance", "query_distance", "plasticity", "pairs"}, add_heatmap_rows<csv_writer>};
}
inline head_table bins_table() {
  return {{"layer", "q_head", "kind", "start", "end", "plasticity", "standard_error"}, add_bins_rows<csv_writer>};
}

inline void write_heads_csv(const std::filesystem::path& path, const model_report& report) {
  detail::write_table(path, heads_table(), report);
}
inline void write_qk_csv(const std::filesystem::path& path, const model_report& report) {
  detail::write_table(path, qk_table(), report);
}
inline void write_rotated_csv(const std::filesystem::path& path, const model_report& report) {
  detail::write_table(path, rotated_table(), report);
}
inline void write_profile_csv(const std::filesystem::path& path, const model_report& report) {
  detail::write_table(path, profile_table(), report);
}
inline void write_heatmap_csv(const std::filesystem::path& path, const model_report& report) {
  detail::write_table(path, heatmap_table(), report);
}
inline void write_bins_csv(const std::filesystem::path& path, const model_report& report) {
  detail::write_table(path, bins_table(), report);
}

inline void write_model_report_csv(const std::filesystem::path& path, const model_report& report) {
  detail::require_plasticity("model_report.csv", report.heads);
  std::vector<std::string> names{"model", "ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop"};
  for (int i = 1; i <= 10; ++i) names.push_back("ap_decile_" + std::to_string(i));
  csv_writer csv(path, names);
  const auto all = summarize_heads(report, report.model, every_head(report.heads));
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

inline void write_head_tables(const std::filesystem::path& folder, const model_report& report, bool heatmap) {
  write_heads_csv(folder / "heads.csv", report);
  write_qk_csv(folder / "qk.csv", report);
  write_rotated_csv(folder / "rotated.csv", report);
  write_profile_csv(folder / "profile.csv", report);
  write_bins_csv(folder / "bins.csv", report);
  write_model_report_csv(folder / "model_report.csv", report);
  if (heatmap) write_heatmap_csv(folder / "heatmap.csv", report);
}

}  // namespace qkgeom
