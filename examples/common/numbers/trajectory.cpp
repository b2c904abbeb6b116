// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "examples/common/numbers/head_regions.hpp"
#include "examples/common/numbers/trajectory.hpp"

namespace qkgeom {

namespace detail {

QKGEOM_INLINE void add_geometry(trajectory_point& point, const model_report& report) {
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

/// A profile's aggregates without the document of this number, given the query model.
QKGEOM_INLINE void leave_out(profile_summary& s, const plasticity_profile_result& p, const profile_means& means,
                             index_t context_length, std::int32_t document) {
  const auto at = std::find(p.documents.begin(), p.documents.end(), document);
  const auto values = means.summary(context_length, at == p.documents.end() ? -1 : at - p.documents.begin());
  estimate* const numbers[] = {&s.overall, &s.first20, &s.last20, &s.drop};
  for (std::size_t i = 0; i < 4; ++i) numbers[i]->value = values[i];
}

QKGEOM_INLINE void add_plasticity(trajectory_point& point, const model_report& report) {
  const auto documents = profile_documents(report);
  const std::size_t first = point.columns.size();
  for (const auto& c : plasticity_columns())
    point.columns.push_back({c.name, {}, std::vector<std::vector<double>>(documents.size())});
  for (const auto& h : report.heads) {
    std::size_t i = first;
    for (const auto& c : plasticity_columns()) point.columns[i++].value.push_back(c.value(h));
    auto scratch = h;
    const profile_means means(h.profiles[0]);
    std::optional<plasticity_profile_result> corrected;
    std::optional<profile_means> observed_means, corrected_means;
    if (h.empirical) {
      corrected = unbiased(*h.empirical);
      observed_means.emplace(*h.empirical);
      corrected_means.emplace(*corrected);
    }
    for (std::size_t e = 0; e < documents.size(); ++e) {
      leave_out(scratch.summaries[0], h.profiles[0], means, report.context_length, documents[e]);
      if (corrected) {
        leave_out(*scratch.empirical_summary, *h.empirical, *observed_means, report.context_length, documents[e]);
        leave_out(*scratch.empirical_unbiased, *corrected, *corrected_means, report.context_length, documents[e]);
      }
      i = first;
      for (const auto& c : plasticity_columns()) point.columns[i++].without[e].push_back(c.value(scratch));
    }
  }
}

/// A statistic of one column over a group of heads without each document; NaN for a document that changes no head's
/// number.
QKGEOM_INLINE std::vector<double> replicates_of(const head_values& column, const std::vector<std::size_t>& group,
                                                head_statistic statistic) {
  std::vector<double> without;
  for (const auto& replicate : column.without) {
    const bool changes =
        std::any_of(group.begin(), group.end(), [&](std::size_t h) { return differs(replicate[h], column.value[h]); });
    without.push_back(changes ? statistic_of(statistic, values_of(replicate, group))
                              : std::numeric_limits<double>::quiet_NaN());
  }
  return without;
}

}  // namespace detail

QKGEOM_INLINE trajectory_point point_of(const model_report& report, std::string label,
                                        std::optional<double> heldout_loss) {
  require(!report.heads.empty(), "checkpoint ", label, ": its report has no heads");
  require(!report.heads[0].pca.r_q.empty(), "checkpoint ", label, ": training dynamics needs PCA and rotation");
  trajectory_point point{
      std::move(label), report.context_length, heldout_loss, report.heads[0].geometry.blocks, {}, {}, {}, {}};
  for (const auto& h : report.heads) point.heads.push_back({h.layer, h.q_head, h.rope});
  detail::add_geometry(point, report);
  if (!report.heads[0].profiles.empty()) detail::add_plasticity(point, report);
  return point;
}

QKGEOM_INLINE head_estimate over_heads(const head_values& column, const std::vector<std::size_t>& group,
                                       head_statistic statistic) {
  head_estimate e;
  e.value = statistic_of(statistic, values_of(column.value, group));
  e.head_error = head_error_of(statistic, values_of(column.value, group));
  e.set_error(jackknife(e.value, detail::replicates_of(column, group, statistic)));
  return e;
}

QKGEOM_INLINE head_estimate class_share(const trajectory_point& point, const std::vector<std::size_t>& group,
                                        head_class wanted) {
  const auto share = [&](const std::vector<head_class>& classes) {
    return share_of(group, [&](std::size_t h) { return classes[h] == wanted; });
  };
  head_estimate e{share(point.classes)};
  e.head_error = share_error(e.value, group.size());
  std::vector<double> without;
  for (const auto& classes : point.classes_without) without.push_back(share(classes));
  e.set_error(jackknife(e.value, without));
  return e;
}

}  // namespace qkgeom
