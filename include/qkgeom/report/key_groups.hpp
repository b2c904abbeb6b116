// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/estimate_columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_regions.hpp"

namespace qkgeom {

/// How alike the profiles of two heads of a layer are, by whether they share a key head: means over pairs of heads.
struct key_group_likeness {
  std::string group;
  index_t pairs_within = 0, pairs_between = 0;
  /// Pearson correlation of two profiles over the query buckets: of heads that share a key head, of heads that do not,
  /// and the former less the latter.
  head_estimate correlation_within, correlation_between, correlation_difference;
  /// The same of the mean |difference| of two profiles.
  head_estimate distance_within, distance_between, distance_difference;
};

namespace detail {

struct likeness {
  double correlation = 0, distance = 0, pairs = 0;
};

/// Sums over the pairs of heads of a layer in `heads` with document `left_out` left out: [0] within, [1] between.
inline std::array<likeness, 2> likeness_of(const model_report& report, const std::vector<region_values>& buckets,
                                           index_t left_out, const std::vector<std::size_t>& heads) {
  std::array<likeness, 2> sums{};
  const auto value = [&](const region_values& r, std::size_t h) {
    return left_out < 0 ? r.value[h] : r.without[static_cast<std::size_t>(left_out)][h];
  };
  for (std::size_t i = 0; i < heads.size(); ++i)
    for (std::size_t j = i + 1; j < heads.size(); ++j) {
      const auto &a = report.heads[heads[i]], &b = report.heads[heads[j]];
      if (a.layer != b.layer) continue;
      double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0, distance = 0;
      for (const int pass : {0, 1})  // means, then sums about them
        for (const auto& r : buckets) {
          const double p = value(r, heads[i]), q = value(r, heads[j]);
          if (std::isnan(p) || std::isnan(q)) continue;
          if (pass == 0) {
            ++n;
            x += p;
            y += q;
            distance += std::abs(p - q);
            continue;
          }
          xx += (p - x / n) * (p - x / n);
          yy += (q - y / n) * (q - y / n);
          xy += (p - x / n) * (q - y / n);
        }
      if (n < 3) continue;
      auto& s = sums[a.k_head == b.k_head ? 0 : 1];
      s.correlation += correlation(xy, xx, yy);
      s.distance += distance / n;
      ++s.pairs;
    }
  return sums;
}

}  // namespace detail

/// The likeness of the profiles of the heads with these indices into the report's heads. Without a pair of either kind
/// its mean is null.
inline key_group_likeness key_group_likeness_of(const model_report& report, std::string group,
                                                const std::vector<std::size_t>& heads) {
  std::vector<region_values> buckets;
  for (index_t b = 0; b < report.buckets.count(); ++b)
    buckets.push_back(values_in_region(report, static_cast<double>(report.buckets.start(b)),
                                       static_cast<double>(report.buckets.end(b))));
  key_group_likeness result{std::move(group), 0, 0, {}, {}, {}, {}, {}, {}};
  const auto whole = detail::likeness_of(report, buckets, -1, heads);
  result.pairs_within = static_cast<index_t>(whole[0].pairs);
  result.pairs_between = static_cast<index_t>(whole[1].pairs);
  const auto set = [&](double detail::likeness::*what, head_estimate& within, head_estimate& between,
                       head_estimate& difference) {
    const auto estimate = [&](const auto& of) {
      return estimate_over_heads(detail::documents_of(report).size(), heads,
                                 [&](index_t e, const std::vector<std::size_t>& in) {
                                   const auto s = detail::likeness_of(report, buckets, e, in);
                                   return of(s[0].*what / s[0].pairs, s[1].*what / s[1].pairs);  // 0 / 0 is null
                                 });
    };
    within = estimate([](double x, double) { return x; });
    between = estimate([](double, double y) { return y; });
    difference = estimate([](double x, double y) { return x - y; });
  };
  set(&detail::likeness::correlation, result.correlation_within, result.correlation_between,
      result.correlation_difference);
  set(&detail::likeness::distance, result.distance_within, result.distance_between, result.distance_difference);
  return result;
}

/// All heads, then those of RoPE and of NoPE layers apart where the model has both.
inline std::vector<key_group_likeness> key_groups_of(const model_report& report) {
  std::vector<key_group_likeness> results;
  for (const auto& [name, heads] : head_groups(report.heads))
    results.push_back(key_group_likeness_of(report, name, heads));
  return results;
}

/// key_groups.csv: a row a group of heads; `_error` is the jackknife over documents, `_head_error` that over heads.
inline void write_key_groups_csv(const std::filesystem::path& path, const std::vector<key_group_likeness>& results) {
  std::vector<std::string> names{"group", "pairs_within", "pairs_between"};
  for (const std::string what : {"correlation", "distance"})
    for (const char* which : {"_within", "_between", "_difference"})
      detail::add_head_estimate_names(names, what + which);
  csv_writer csv(path, names);
  for (const auto& r : results) {
    csv.add(r.group).add(r.pairs_within).add(r.pairs_between);
    for (const auto* e : {&r.correlation_within, &r.correlation_between, &r.correlation_difference, &r.distance_within,
                          &r.distance_between, &r.distance_difference})
      detail::add_estimate(csv, *e);
    csv.end_row();
  }
  csv.commit();
}

}  // namespace qkgeom
