// SPDX-License-Identifier: MIT
#include "examples/common/numbers/recovery.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

using decile_values = std::array<head_values, 10>;

double mean_without(const head_values& r, index_t left_out, const std::vector<std::size_t>& heads) {
  return statistic_of(head_statistic::mean, r.at(left_out, heads));
}

/// Index in [from, to) of the smallest value, or of the largest with sign -1; -1 if all are null.
int extreme_in(const std::array<head_estimate, 10>& decile, int from, int to, double sign) {
  int best = -1;
  for (int i = from; i < to; ++i) {
    const double v = sign * decile[i].value;
    if (!std::isnan(v) && (best < 0 || v < sign * decile[best].value)) best = i;
  }
  return best;
}

/// The difference of two deciles' means over heads; the deciles stay the same where documents are left out.
head_estimate decile_difference(const decile_values& deciles, const std::vector<std::size_t>& heads, int high,
                                int low) {
  const auto &a = deciles[high], &b = deciles[low];
  return estimate_over_heads({&a, &b}, heads, [&](index_t e, const std::vector<std::size_t>& in) {
    return mean_without(a, e, in) - mean_without(b, e, in);
  });
}

recovery_result recovery_in(const decile_values& deciles, const std::vector<std::size_t>& heads, double errors) {
  recovery_result r;
  r.heads = static_cast<index_t>(heads.size());
  for (std::size_t i = 0; i < 10; ++i)
    r.decile[i] = estimate_over_heads({&deciles[i]}, heads, [&](index_t e, const std::vector<std::size_t>& in) {
      return mean_without(deciles[i], e, in);
    });
  r.peak = extreme_in(r.decile, 5, 9, -1);
  if (r.peak < 0) return r;
  r.dip = extreme_in(r.decile, 3, r.peak, 1);
  r.end = extreme_in(r.decile, r.peak + 1, 10, 1);
  if (r.dip < 0 || r.end < 0) return r;
  r.rise = decile_difference(deciles, heads, r.peak, r.dip);
  r.fall = decile_difference(deciles, heads, r.peak, r.end);
  const double miss = std::erfc(errors / std::numbers::sqrt2);  // a normal's beyond so many errors
  r.recovers = r.rise.value > half_width(r.rise, miss) && r.fall.value > half_width(r.fall, miss);
  return r;
}

template <class List>
index_t recovering(const List& list) {
  return std::count_if(list.begin(), list.end(), [](const auto& entry) { return entry.second.recovers; });
}

}  // namespace

index_t group_recovery::recovering_layers() const { return recovering(layers); }
index_t group_recovery::recovering_heads() const { return recovering(each); }

std::vector<group_recovery> recovery(const model_report& report, double errors) {
  require(report.context_length > 0, "recovery: context_length must be at least 1 token, not ", report.context_length);
  decile_values deciles;
  const auto edges = equal_bins(report.context_length, 10);
  for (std::size_t i = 0; i < 10; ++i) deciles[i] = plasticity_between(report, edges[i], edges[i + 1]);
  std::vector<group_recovery> results;
  for (const auto& [name, heads] : head_groups(report.heads)) {
    group_recovery g{name, recovery_in(deciles, heads, errors), {}, {}};
    std::map<index_t, std::vector<std::size_t>> layers;
    for (const std::size_t h : heads) {
      layers[report.heads[h].layer].push_back(h);
      g.each.emplace_back(h, recovery_in(deciles, {h}, errors));
    }
    for (const auto& [layer, in] : layers) g.layers.emplace_back(layer, recovery_in(deciles, in, errors));
    results.push_back(std::move(g));
  }
  return results;
}

void write_recovery_csv(const std::filesystem::path& path, const model_report& report,
                        const std::vector<group_recovery>& results) {
  csv_writer csv(path,
                 csv_columns("scope,group,layer,q_head,heads,recovers,dip_start,dip,peak_start,peak,end_start,end,rise,"
                             "rise_error,rise_head_error,fall,fall_error,fall_head_error,layers,recovering_layers,"
                             "recovering_heads"));
  const auto edges = equal_bins(report.context_length, 10);
  const auto write = [&](const recovery_result& r) {
    csv.add(r.heads).add(r.recovers);
    for (const int at : {r.dip, r.peak, r.end})
      if (at < 0)
        csv.add(std::nullopt).add(std::nullopt);
      else
        csv.add(edges[at]).add(r.decile[at].value);
    for (const auto* e : {&r.rise, &r.fall}) add_estimate(csv, *e);
  };
  const auto no_counts = [&] { csv.add(std::nullopt).add(std::nullopt).add(std::nullopt).end_row(); };
  for (const auto& g : results) {
    csv.add("model").add(g.group).add(std::nullopt).add(std::nullopt);
    write(g.mean);
    csv.add(g.layers.size()).add(g.recovering_layers()).add(g.recovering_heads()).end_row();
  }
  if (!results.empty()) {
    for (const auto& [layer, r] : results[0].layers) {
      csv.add("layer").add(results[0].group).add(layer).add(std::nullopt);
      write(r);
      no_counts();
    }
    for (const auto& [h, r] : results[0].each) {
      csv.add("head").add(results[0].group).add(report.heads[h].layer).add(report.heads[h].q_head);
      write(r);
      no_counts();
    }
  }
  csv.commit();
}

}  // namespace qkgeom::examples
