// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/csv/pair_csv.hpp"
#include "qkgeom/report/estimate_columns.hpp"
#include "qkgeom/report/pair_summary.hpp"

namespace qkgeom {

namespace detail {

QKGEOM_INLINE std::vector<std::string> component_names() {
  std::vector<std::string> names;
  add_estimate_names(names, "plasticity");
  for (index_t p = 0; p < pair_terms; ++p) add_estimate_names(names, std::string(name_of(static_cast<pair_term>(p))));
  return names;
}

QKGEOM_INLINE void write_bucket_components(csv_writer& csv, const head_report& h,
                                           const plasticity_profile_result& profile) {
  std::vector<plasticity_profile_result> terms;
  for (index_t p = 0; p < pair_terms; ++p) terms.push_back(term_profile(profile, static_cast<pair_term>(p)));
  for (std::size_t b = 0; b < profile.buckets.size(); ++b) {
    const auto& bucket = profile.buckets[b];
    csv.add(h.layer).add(h.q_head).add(profile.covariance).add("bucket").add(b).add(bucket.start).add(bucket.end);
    csv.add(std::nullopt).add(std::nullopt).add(bucket.pairs).add(bucket.plasticity).add(bucket.standard_error);
    for (const auto& p : terms) csv.add(p.buckets[b].plasticity).add(p.buckets[b].standard_error);
    csv.end_row();
  }
}

QKGEOM_INLINE void write_cell_components(csv_writer& csv, const head_report& h,
                                         const plasticity_profile_result& profile) {
  const auto& map = profile.heatmap;
  if (map.terms.weight.empty()) return;
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j) {
      const index_t cell = i * map.width + j;
      if (!(map.terms.weight[cell] > 0)) continue;
      csv.add(h.layer).add(h.q_head).add(profile.covariance).add("cell");
      csv.add(std::nullopt).add(std::nullopt).add(std::nullopt).add(i * map.cell).add(j * map.cell);
      csv.add(map.terms.weight[cell]);
      add_estimate(csv, cell_mean(map, i, j));
      for (index_t p = 0; p < pair_terms; ++p) add_estimate(csv, cell_mean(map, i, j, static_cast<pair_term>(p)));
      csv.end_row();
    }
}

}  // namespace detail

QKGEOM_INLINE void write_components_csv(const std::filesystem::path& path, const model_report& report) {
  std::vector<std::string> names{"layer", "q_head", "covariance",   "level",          "q_bucket",
                                 "start", "end",    "key_distance", "query_distance", "pairs"};
  for (auto& name : detail::component_names()) names.push_back(std::move(name));
  csv_writer csv(path, names);
  bool any = report.heads.empty();
  for (const auto& h : report.heads)
    for (const auto& p : h.profiles) {
      if (p.buckets.empty() || p.buckets[0].term_sum.size() != p.documents.size() * pair_terms) continue;
      any = true;
      detail::write_bucket_components(csv, h, p);
      detail::write_cell_components(csv, h, p);
    }
  require(any, "cannot write ", path.string(), ": no profile has terms");
  csv.commit();
}

QKGEOM_INLINE void write_later_keys_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(path, {"layer", "q_head", "rope", "covariance", "bias_strength", "later_wins", "later_wins_error",
                        "favoured_wins", "agrees", "agreeing_share", "agreeing_share_error"});
  for (const auto& h : report.heads) {
    const auto s = later_keys(h, report.context_length);
    csv.row(h.layer, h.q_head, h.rope, h.profiles[0].covariance, s.bias_strength, s.later_wins.value,
            s.later_wins.error, s.favoured_wins.value, s.agrees, s.agreeing_share.value, s.agreeing_share.error);
  }
  csv.commit();
}

QKGEOM_INLINE void write_bucket_table_csv(const std::filesystem::path& path, const model_report& report,
                                          const std::vector<plasticity_bucket_table>& tables) {
  require(tables.size() == report.heads.size(), "cannot write ", path.string(), ": ", tables.size(), " tables for ",
          report.heads.size(), " heads");
  csv_writer csv(path, {"layer", "q_head", "k_head", "q_bucket", "k_bucket", "q_start", "q_end", "k_start", "k_end",
                        "plasticity", "standard_error", "sampling_error", "pairs", "covariance"});
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto& h = report.heads[i];
    const auto& table = tables[i];
    for (index_t b = 0; b < table.query_buckets.count(); ++b)
      for (index_t k = 0; k < table.key_buckets.count(); ++k)
        if (const auto& cell = table.cell(b, k); cell.pairs > 0)
          csv.row(h.layer, h.q_head, h.k_head, b, k, cell.start, cell.end, table.key_buckets.start(k),
                  table.key_buckets.end(k), cell.plasticity, cell.standard_error, cell.sampling_error, cell.pairs,
                  table.covariance);
  }
  csv.commit();
}

}  // namespace qkgeom
