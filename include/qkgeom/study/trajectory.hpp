// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_statistics.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

/// One number of every head, and the same with documents left out.
struct head_values {
  std::string name;                          ///< as in heads.csv
  std::vector<double> value;                 ///< (heads), NaN is null
  std::vector<std::vector<double>> without;  ///< (documents or blocks of them)(heads); empty: no error is known
};

/// Which head of the model.
struct head_place {
  index_t layer = 0, q_head = 0;
  bool rope = true;
  bool operator==(const head_place&) const = default;
};

/// A checkpoint as training dynamics sees it: every number of heads.csv of every head, what they become without some of
/// the documents, and the head classes. Free of profiles, so that many checkpoints fit into memory.
struct trajectory_point {
  std::string label;
  index_t context_length = 0;  ///< tokens
  std::optional<double> heldout_loss;
  document_blocks blocks;  ///< of the geometry's errors; two checkpoints with equal blocks are compared in pairs
  std::vector<head_place> heads;
  std::vector<head_values> columns;
  std::vector<head_class> classes;                       ///< (heads)
  std::vector<std::vector<head_class>> classes_without;  ///< (blocks)(heads)

  /// Throws `error` if there is no such column.
  const head_values& column(const std::string& name) const {
    for (const auto& c : columns)
      if (c.name == name) return c;
    fail("checkpoint ", label, " has no column ", name);
  }
};

namespace detail {

inline void add_geometry(trajectory_point& point, const model_report& report) {
  const std::size_t replicates = report.heads[0].geometry.without.size();
  for (const auto* list : {&pca_columns(), &rotation_columns()})
    for (const auto& c : *list) point.columns.push_back({c.name, {}, std::vector<std::vector<double>>(replicates)});
  point.classes_without.resize(replicates);
  for (const auto& h : report.heads) {
    require(h.geometry.without.size() == replicates, "layer ", h.layer,
            ": one block of documents has all of its queries or all of its keys, so that it cannot be left out there");
    const auto read = [&](const head_report& from, auto&& put) {
      std::size_t i = 0;
      for (const auto* list : {&pca_columns(), &rotation_columns()})
        for (const auto& c : *list) put(point.columns[i++], c.value(from));
    };
    read(h, [](head_values& column, double x) { column.value.push_back(x); });
    point.classes.push_back(h.pca.head_class);
    auto scratch = h;
    for (std::size_t b = 0; b < replicates; ++b) {
      scratch.pca = h.geometry.without[b].pca;
      scratch.rotation = h.geometry.without[b].rotation;
      read(scratch, [b](head_values& column, double x) { column.without[b].push_back(x); });
      point.classes_without[b].push_back(scratch.pca.head_class);
    }
  }
}

/// A profile's aggregates without one document, given the query model.
inline void leave_out(profile_summary& s, const plasticity_profile_result& p, index_t context_length, std::int32_t id,
                      const std::vector<std::pair<double, double>>& totals) {
  const auto at = std::find(p.documents.begin(), p.documents.end(), id);
  const auto values = summary_values(p, context_length, bucket_weight::queries,
                                     at == p.documents.end() ? -1 : at - p.documents.begin(), totals);
  estimate* const parts[] = {&s.overall, &s.first20, &s.last20, &s.drop};
  for (std::size_t i = 0; i < 4; ++i) parts[i]->value = values[i];
}

inline void add_plasticity(trajectory_point& point, const model_report& report) {
  std::vector<std::int32_t> documents;
  for (const auto& h : report.heads)
    documents.insert(documents.end(), h.profiles[0].documents.begin(), h.profiles[0].documents.end());
  std::sort(documents.begin(), documents.end());
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  if (!documents.empty() && documents[0] < 0) documents.clear();  // pairs across documents: one group, no error
  const std::size_t first = point.columns.size();
  for (const auto& c : plasticity_columns())
    point.columns.push_back({c.name, {}, std::vector<std::vector<double>>(documents.size())});
  for (const auto& h : report.heads) {
    std::size_t i = first;
    for (const auto& c : plasticity_columns()) point.columns[i++].value.push_back(c.value(h));
    auto scratch = h;
    const auto totals = bucket_totals(h.profiles[0]);
    std::optional<plasticity_profile_result> whole;
    if (h.empirical) whole = unbiased(*h.empirical);
    const auto observed = h.empirical ? bucket_totals(*h.empirical) : totals;
    const auto corrected = whole ? bucket_totals(*whole) : totals;
    for (std::size_t e = 0; e < documents.size(); ++e) {
      leave_out(scratch.summaries[0], h.profiles[0], report.context_length, documents[e], totals);
      if (whole) {
        leave_out(*scratch.empirical_summary, *h.empirical, report.context_length, documents[e], observed);
        leave_out(*scratch.empirical_unbiased, *whole, report.context_length, documents[e], corrected);
      }
      i = first;
      for (const auto& c : plasticity_columns()) point.columns[i++].without[e].push_back(c.value(scratch));
    }
  }
}

}  // namespace detail

/// The checkpoint behind a report that `analyse` made with `geometry_blocks` set, for errors of the geometry. Throws if
/// the report has no heads, or no geometry.
inline trajectory_point point_of(const model_report& report, std::string label,
                                 std::optional<double> heldout_loss = std::nullopt) {
  require(!report.heads.empty(), "checkpoint ", label, ": its report has no heads");
  require(!report.heads[0].pca.r_q.empty(), "checkpoint ", label, ": training dynamics needs PCA and rotation");
  trajectory_point point{
      std::move(label), report.context_length, heldout_loss, report.heads[0].geometry.blocks, {}, {}, {}, {}};
  for (const auto& h : report.heads) point.heads.push_back({h.layer, h.q_head, h.rope});
  detail::add_geometry(point, report);
  if (!report.heads[0].profiles.empty()) detail::add_plasticity(point, report);
  return point;
}

/// Throws `error` unless both checkpoints have the same heads and the same columns.
inline void check_comparable(const trajectory_point& a, const trajectory_point& b) {
  require(a.heads == b.heads, "checkpoint ", b.label, " has other heads than ", a.label,
          "; capture the same layers and heads of each");
  require(a.columns.size() == b.columns.size(), "checkpoint ", b.label, " was analysed otherwise than ", a.label);
}

namespace detail {

/// A statistic of one column over a group of heads with each document left out; NaN for one without a say in it, that
/// leaves all the heads' numbers as they are.
inline std::vector<double> replicates_of(const head_values& column, const std::vector<std::size_t>& group,
                                         head_statistic statistic) {
  std::vector<double> without;
  for (const auto& replicate : column.without) {
    const bool has_a_say =
        std::any_of(group.begin(), group.end(), [&](std::size_t h) { return differs(replicate[h], column.value[h]); });
    without.push_back(has_a_say ? statistic_of(statistic, picked(replicate, group))
                                : std::numeric_limits<double>::quiet_NaN());
  }
  return without;
}

}  // namespace detail

/// A statistic of one column over a group of heads.
inline head_estimate over_heads(const head_values& column, const std::vector<std::size_t>& group,
                                head_statistic statistic) {
  head_estimate e;
  e.value = statistic_of(statistic, detail::picked(column.value, group));
  e.head_error = head_error_of(statistic, detail::picked(column.value, group));
  e.error = jackknife_error(detail::replicates_of(column, group, statistic));
  return e;
}

/// Share of a group's heads in a class.
inline head_estimate class_share(const trajectory_point& point, const std::vector<std::size_t>& group,
                                 head_class wanted) {
  const auto share = [&](const std::vector<head_class>& classes) {
    return share_of(group, [&](std::size_t h) { return classes[h] == wanted; });
  };
  head_estimate e{share(point.classes)};
  e.head_error = share_error(e.value, group.size());
  std::vector<double> without;
  for (const auto& classes : point.classes_without) without.push_back(share(classes));
  e.error = jackknife_error(without);
  return e;
}

}  // namespace qkgeom
