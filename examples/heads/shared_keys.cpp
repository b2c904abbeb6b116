// SPDX-License-Identifier: MIT
#include "examples/heads/tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/association.hpp"

namespace qkgeom::examples {
namespace {

struct likeness {
  double correlation = 0, distance = 0, pairs = 0;
};

using likeness_sums = std::array<likeness, 2>;  // [0] within, [1] between

/// Sums over the pairs of heads of a layer in `heads`, which are sorted by layer, with document `left_out` left out.
likeness_sums likeness_of(const model_report& report, const std::vector<head_values>& buckets, index_t left_out,
                          const std::vector<std::size_t>& heads) {
  likeness_sums sums{};
  for (std::size_t i = 0; i < heads.size(); ++i)
    for (std::size_t j = i + 1; j < heads.size(); ++j) {
      const auto &a = report.heads[heads[i]], &b = report.heads[heads[j]];
      if (a.layer != b.layer) break;
      double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0, distance = 0;
      for (const int pass : {0, 1})  // means, then sums about them
        for (const auto& r : buckets) {
          const double p = r.at(left_out)[heads[i]], q = r.at(left_out)[heads[j]];
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

/// The heads among `heads`, which are sorted by layer, in the layer of heads[i]; with or without that one.
std::vector<std::size_t> layer_around(const model_report& report, const std::vector<std::size_t>& heads, std::size_t i,
                                      bool without = false) {
  const auto layer = [&](std::size_t at) { return report.heads[heads[at]].layer; };
  std::size_t first = i, end = i;
  while (first > 0 && layer(first - 1) == layer(i)) --first;
  while (end < heads.size() && layer(end) == layer(i)) ++end;
  std::vector<std::size_t> found;
  for (std::size_t at = first; at < end; ++at)
    if (!without || at != i) found.push_back(heads[at]);
  return found;
}

shared_key_likeness likeness_in(const model_report& report, const std::vector<head_values>& buckets, std::string group,
                                const std::vector<std::size_t>& heads) {
  const auto whole = likeness_of(report, buckets, -1, heads);
  const auto numbers = [](const likeness_sums& s) {  // 0 / 0 is null
    const auto mean = [&](double likeness::*what, std::size_t k) { return s[k].*what / s[k].pairs; };
    std::array<double, 6> n{};
    std::size_t i = 0;
    for (const auto what : {&likeness::correlation, &likeness::distance}) {
      n[i++] = mean(what, 0);
      n[i++] = mean(what, 1);
      n[i++] = mean(what, 0) - mean(what, 1);
    }
    return n;
  };
  std::array<std::vector<double>, 6> without_document, without_head;
  const auto add = [&](const likeness_sums& s, std::array<std::vector<double>, 6>& to) {
    const auto n = numbers(s);
    for (std::size_t i = 0; i < 6; ++i) to[i].push_back(n[i]);
  };
  const std::size_t documents = buckets.empty() ? 0 : buckets[0].without.size();
  for (std::size_t d = 0; d < documents; ++d)
    if (std::any_of(buckets.begin(), buckets.end(), [&](const auto& r) { return r.changes(d, heads); }))
      add(likeness_of(report, buckets, static_cast<index_t>(d), heads), without_document);
  for (std::size_t i = 0; heads.size() > 1 && i < heads.size(); ++i) {
    auto rest = whole;
    const auto own = likeness_of(report, buckets, -1, layer_around(report, heads, i));
    const auto others = likeness_of(report, buckets, -1, layer_around(report, heads, i, true));
    for (std::size_t k = 0; k < 2; ++k) {
      rest[k].correlation -= own[k].correlation - others[k].correlation;
      rest[k].distance -= own[k].distance - others[k].distance;
      rest[k].pairs -= own[k].pairs - others[k].pairs;
    }
    add(rest, without_head);
  }
  shared_key_likeness result;
  result.group = std::move(group);
  result.pairs_within = static_cast<index_t>(whole[0].pairs);
  result.pairs_between = static_cast<index_t>(whole[1].pairs);
  head_estimate* const to[] = {&result.correlation_within, &result.correlation_between, &result.correlation_difference,
                               &result.distance_within,    &result.distance_between,    &result.distance_difference};
  const auto value = numbers(whole);
  for (std::size_t i = 0; i < 6; ++i) {
    to[i]->value = value[i];
    if (std::isnan(value[i])) continue;
    to[i]->set_error(jackknife(value[i], without_document[i]));
    // One pair of heads is no draw from many: without one of them there is none.
    if (std::none_of(without_head[i].begin(), without_head[i].end(), [](double v) { return std::isnan(v); }))
      to[i]->head_error = jackknife_error(without_head[i], 2);
  }
  return result;
}

}  // namespace

std::vector<shared_key_likeness> shared_keys_of(const model_report& report) {
  const auto buckets = plasticity_by_bucket(report);
  std::vector<shared_key_likeness> results;
  for (const auto& [name, heads] : head_groups(report.heads))
    results.push_back(likeness_in(report, buckets, name, heads));
  return results;
}

qkgeom::table shared_keys_table(const std::vector<shared_key_likeness>& results) {
  using row = shared_key_likeness;
  table_columns<row> c;
  c.add("group", group_meaning, &row::group);
  c.add("pairs_within", "number of pairs of heads that share a key head, with three query buckets in common",
        &row::pairs_within);
  c.add("pairs_between", "number of pairs of heads of a layer that do not share a key head, likewise",
        &row::pairs_between);
  c.add("correlation_within",
        "mean Pearson's r of the two profiles over the query buckets, pairs that share a key head",
        &row::correlation_within);
  c.add("correlation_between", "mean Pearson's r, pairs that do not share a key head", &row::correlation_between);
  c.add("correlation_difference", "correlation_within less correlation_between", &row::correlation_difference);
  c.add("distance_within", "mean absolute difference of the two profiles, pairs that share a key head",
        &row::distance_within);
  c.add("distance_between", "mean absolute difference, pairs that do not share a key head", &row::distance_between);
  c.add("distance_difference", "distance_within less distance_between", &row::distance_difference);
  return std::move(c).with_rows(results);
}

}  // namespace qkgeom::examples
