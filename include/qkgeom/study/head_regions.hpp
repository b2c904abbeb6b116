// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "qkgeom/report/head_statistics.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

/// The mean plasticity of every head over one region of the context, and the same with each document left out.
struct region_values {
  double start = 0, end = 0;                 ///< tokens
  std::vector<double> value;                 ///< (heads) headline model; NaN is null
  std::vector<std::vector<double>> without;  ///< (documents)(heads)
};

namespace detail {

/// Documents behind the headline profiles, ascending; none if pairs run across documents.
inline std::vector<std::int32_t> documents_of(const model_report& report) {
  std::vector<std::int32_t> ids;
  for (const auto& h : report.heads)
    if (!h.profiles.empty()) ids.insert(ids.end(), h.profiles[0].documents.begin(), h.profiles[0].documents.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ids.erase(std::remove_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; }), ids.end());
  return ids;
}

}  // namespace detail

/// Means over the query buckets whose middle lies in [start, end), tokens, as `bin_means` takes them.
inline region_values values_in_region(const model_report& report, double start, double end) {
  const auto documents = detail::documents_of(report);
  const double null = std::numeric_limits<double>::quiet_NaN();
  region_values r{start, end, std::vector<double>(report.heads.size(), null), {}};
  r.without.assign(documents.size(), r.value);
  for (std::size_t h = 0; h < report.heads.size(); ++h) {
    if (report.heads[h].profiles.empty()) continue;
    const auto& p = report.heads[h].profiles[0];
    const auto totals = detail::bucket_totals(p);
    const auto mean = [&](index_t left_out) {
      return detail::region_mean(p, start, end, bucket_weight::queries, left_out, totals);
    };
    r.value[h] = mean(-1);
    for (std::size_t e = 0; e < documents.size(); ++e) {
      const auto at = std::find(p.documents.begin(), p.documents.end(), documents[e]);
      r.without[e][h] = at == p.documents.end() ? r.value[h] : mean(at - p.documents.begin());
    }
  }
  return r;
}

namespace detail {

/// Whether leaving out a document changes a region's value for one of the heads: else it has no say in what is made of
/// them.
inline bool has_a_say(const region_values& r, std::size_t document, const std::vector<std::size_t>& heads) {
  return std::any_of(heads.begin(), heads.end(),
                     [&](std::size_t h) { return differs(r.without[document][h], r.value[h]); });
}

}  // namespace detail

/// Any number made of some regions over a group of heads, with both its errors: `value(e, heads)` gives it with
/// document e left out (-1: none). Both errors are jackknives, so the number must be a smooth function of each head's
/// value; that over documents is over those that have a say in one of the regions.
template <class Value>
head_estimate estimate_over_heads(const std::vector<const region_values*>& regions,
                                  const std::vector<std::size_t>& heads, const Value& value) {
  head_estimate e;
  e.value = value(index_t{-1}, heads);
  if (std::isnan(e.value)) return e;
  std::vector<double> without;
  for (std::size_t d = 0; d < regions.at(0)->without.size(); ++d)
    if (std::any_of(regions.begin(), regions.end(), [&](const auto* r) { return detail::has_a_say(*r, d, heads); }))
      without.push_back(value(static_cast<index_t>(d), heads));
  e.error = jackknife_error(without);
  without.clear();
  for (std::size_t i = 0; heads.size() > 1 && i < heads.size(); ++i) {
    auto rest = heads;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    without.push_back(value(index_t{-1}, rest));
  }
  e.head_error = jackknife_error(without);
  return e;
}

namespace detail {

/// The values of a group's heads with document `left_out` left out, nulls left out.
inline std::vector<double> group_values(const region_values& r, index_t left_out,
                                        const std::vector<std::size_t>& heads) {
  return picked(left_out < 0 ? r.value : r.without[left_out], heads);
}

}  // namespace detail

}  // namespace qkgeom
