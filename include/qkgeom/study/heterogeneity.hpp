// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/estimate_columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/quantile.hpp"
#include "qkgeom/stats/shape.hpp"
#include "qkgeom/study/head_regions.hpp"

namespace qkgeom {

struct heterogeneity_options {
  double high = 0.8;  ///< heads above it count as led by content
  double low = 0.3;   ///< heads below it count as locked to position
};

/// How the heads of a group differ in one region of the context (section 6.2.3).
struct head_spread {
  double start = 0, end = 0;                   ///< tokens
  index_t heads = 0;                           ///< that have a value there
  head_estimate mean, deviation;               ///< over heads; deviation n - 1
  head_estimate quartile1, median, quartile3;  ///< without `head_error`
  head_estimate share_high, share_low;         ///< of heads above `high`, below `low`
  head_estimate bimodality;                    ///< coefficient, see `shape_of`; null below four heads
};

/// Head heterogeneity of one group of heads.
struct heterogeneity_result {
  std::string group;
  std::vector<head_spread> buckets;  ///< (query buckets)
  head_spread first20, last20;       ///< heads' means over the first and the last 20 % of the context
  head_estimate convergence;         ///< deviation in the last 20 % over that in the first; below 1: heads grow alike
};

namespace detail {

inline head_spread spread_over_heads(const region_values& r, const std::vector<std::size_t>& heads,
                                     const heterogeneity_options& options) {
  const auto estimate = [&](auto&& statistic) {
    return estimate_over_heads(
        {&r}, heads, [&](index_t e, const std::vector<std::size_t>& in) { return statistic(group_values(r, e, in)); });
  };
  const auto share = [&](auto&& in) {
    return estimate([&](const std::vector<double>& x) {
      return x.empty() ? std::numeric_limits<double>::quiet_NaN()
                       : static_cast<double>(std::count_if(x.begin(), x.end(), in)) / static_cast<double>(x.size());
    });
  };
  head_spread s;
  s.start = r.start;
  s.end = r.end;
  s.heads = static_cast<index_t>(picked(r.value, heads).size());
  s.mean = estimate([](const std::vector<double>& x) { return shape_of(x).mean; });
  s.deviation = estimate([](const std::vector<double>& x) { return shape_of(x).deviation; });
  s.bimodality = estimate([](const std::vector<double>& x) { return shape_of(x).bimodality; });
  s.share_high = share([&](double v) { return v > options.high; });
  s.share_low = share([&](double v) { return v < options.low; });
  head_estimate* const quartiles[] = {&s.quartile1, &s.median, &s.quartile3};
  for (int i = 0; i < 3; ++i) {
    *quartiles[i] = estimate([&](const std::vector<double>& x) { return quantile(x, 0.25 * (i + 1)); });
    quartiles[i]->head_error = std::numeric_limits<double>::quiet_NaN();  // no jackknife: it leaps from head to head
  }
  return s;
}

}  // namespace detail

/// The heterogeneity of the heads with these indices into the report's heads.
inline heterogeneity_result heterogeneity_of(const model_report& report, std::string group,
                                             const std::vector<std::size_t>& heads,
                                             const heterogeneity_options& options = {}) {
  heterogeneity_result result{std::move(group), {}, {}, {}, {}};
  for (index_t b = 0; b < report.buckets.count(); ++b)
    result.buckets.push_back(
        detail::spread_over_heads(values_in_region(report, static_cast<double>(report.buckets.start(b)),
                                                   static_cast<double>(report.buckets.end(b))),
                                  heads, options));
  const double length = static_cast<double>(report.context_length);
  const auto first = values_in_region(report, 0, 0.2 * length), last = values_in_region(report, 0.8 * length, length);
  result.first20 = detail::spread_over_heads(first, heads, options);
  result.last20 = detail::spread_over_heads(last, heads, options);
  result.convergence = estimate_over_heads({&first, &last}, heads, [&](index_t e, const std::vector<std::size_t>& in) {
    const double early = shape_of(detail::group_values(first, e, in)).deviation;
    const double late = shape_of(detail::group_values(last, e, in)).deviation;
    return early > 0 ? late / early : std::numeric_limits<double>::quiet_NaN();
  });
  return result;
}

/// All heads, then those of RoPE and of NoPE layers apart where the model has both.
inline std::vector<heterogeneity_result> heterogeneity(const model_report& report,
                                                       const heterogeneity_options& options = {}) {
  std::vector<heterogeneity_result> results;
  for (const auto& [name, heads] : head_groups(report.heads))
    results.push_back(heterogeneity_of(report, name, heads, options));
  return results;
}

/// heterogeneity.csv: a row a group of heads and region of the context (`bucket`: a query bucket; `first_20pct` and
/// `last_20pct`: heads' means over them); start and end in tokens. `convergence` stands in the row of the last 20 %.
/// `_error` is the jackknife over documents, `_head_error` that over heads.
inline void write_heterogeneity_csv(const std::filesystem::path& path,
                                    const std::vector<heterogeneity_result>& results) {
  std::vector<std::string> names{"group", "region", "start", "end", "heads"};
  for (const char* name : {"mean", "sd", "share_above", "share_below", "bimodality", "convergence"})
    detail::add_head_estimate_names(names, name);
  for (const char* name : {"q25", "median", "q75"}) detail::add_estimate_names(names, name);
  csv_writer csv(path, names);
  const auto write = [&](const heterogeneity_result& r, const char* region, const head_spread& s,
                         const head_estimate& convergence) {
    csv.add(r.group).add(region).add(s.start).add(s.end).add(s.heads);
    for (const auto* e : {&s.mean, &s.deviation, &s.share_high, &s.share_low, &s.bimodality, &convergence})
      detail::add_estimate(csv, *e);
    for (const auto* e : {&s.quartile1, &s.median, &s.quartile3}) csv.add(e->value).add(e->error);
    csv.end_row();
  };
  for (const auto& r : results) {
    for (const auto& b : r.buckets) write(r, "bucket", b, {});
    write(r, "first_20pct", r.first20, {});
    write(r, "last_20pct", r.last20, r.convergence);
  }
  csv.commit();
}

}  // namespace qkgeom
