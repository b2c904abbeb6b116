// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>

#include "examples/common/numbers/head_regions.hpp"

namespace qkgeom {

namespace detail {

/// Documents behind the headline profiles, ascending; none if pairs run across documents.
inline std::vector<std::int32_t> profile_documents(const model_report& report) {
  std::vector<std::int32_t> ids;
  for (const auto& h : report.heads)
    if (!h.profiles.empty()) ids.insert(ids.end(), h.profiles[0].documents.begin(), h.profiles[0].documents.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ids.erase(std::remove_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; }), ids.end());
  return ids;
}

/// Whether leaving out a document changes the region's value for one of the heads.
inline bool changes_heads(const region_values& r, std::size_t document, const std::vector<std::size_t>& heads) {
  return std::any_of(heads.begin(), heads.end(),
                     [&](std::size_t h) { return differs(r.without[document][h], r.value[h]); });
}

}  // namespace detail

inline region_values values_in_region(const model_report& report, double start, double end) {
  const auto documents = detail::profile_documents(report);
  const double null = std::numeric_limits<double>::quiet_NaN();
  region_values r{start, end, std::vector<double>(report.heads.size(), null), {}};
  r.without.assign(documents.size(), r.value);
  for (std::size_t h = 0; h < report.heads.size(); ++h) {
    if (report.heads[h].profiles.empty()) continue;
    const auto& p = report.heads[h].profiles[0];
    const profile_means means(p);
    r.value[h] = means.mean({start, end});
    for (std::size_t e = 0; e < documents.size(); ++e) {
      const auto at = std::find(p.documents.begin(), p.documents.end(), documents[e]);
      r.without[e][h] = at == p.documents.end() ? r.value[h] : means.mean({start, end}, at - p.documents.begin());
    }
  }
  return r;
}

template <class Value>
head_estimate estimate_over_heads(const std::vector<const region_values*>& regions,
                                  const std::vector<std::size_t>& heads, const Value& value) {
  head_estimate e;
  e.value = value(index_t{-1}, heads);
  if (std::isnan(e.value)) return e;
  std::vector<double> without;
  for (std::size_t d = 0; d < regions.at(0)->without.size(); ++d)
    if (std::any_of(regions.begin(), regions.end(), [&](const auto* r) { return detail::changes_heads(*r, d, heads); }))
      without.push_back(value(static_cast<index_t>(d), heads));
  e.set_error(jackknife(e.value, without));
  without.clear();
  for (std::size_t i = 0; heads.size() > 1 && i < heads.size(); ++i) {
    auto rest = heads;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    without.push_back(value(index_t{-1}, rest));
  }
  e.head_error = jackknife_error(without, 2);
  return e;
}

}  // namespace qkgeom
