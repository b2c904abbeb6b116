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

qkgeom::table recovery_table(const model_report& report, const std::vector<group_recovery>& results) {
  struct row {
    const char* scope;
    const group_recovery* group;
    const recovery_result* profile;
    std::optional<index_t> layer{}, q_head{}, layers{}, recovering_layers{}, recovering_heads{};
  };
  table_columns<row> c;
  c.add("scope", "`model`: a group's mean profile; `layer`: a layer's; `head`: a head's own", &row::scope);
  c.of(&row::group).add("group", group_meaning, &group_recovery::group);
  c.add("layer", "number of the layer; empty for a group", &row::layer);
  c.add("q_head", "number of the query head; empty for a group or layer", &row::q_head);
  const auto of = c.of(&row::profile);
  of.add("heads", "number of heads in the mean profile", &recovery_result::heads);
  of.add("recovers", "1: rise and fall both exceed two standard errors, or more over few documents",
         &recovery_result::recovers);
  const auto add_decile = [&](const std::string& name, const std::string& which, int recovery_result::*at) {
    const auto put = [&](const std::string& column, const std::string& meaning, auto value) {
      of.add(column, meaning + which + "; empty where there is none",
             [=](auto& r) { return r.*at < 0 ? std::nullopt : std::optional(value(r, r.*at)); });
    };
    put(name + "_start", "first token of the ",
        [edges = equal_bins(report.context_length, 10)](auto&, int i) { return edges[i]; });
    put(name, "mean of the ", [](auto& r, int i) { return r.decile[i].value; });
  };
  add_decile("dip", "smallest decile from 30 % of the context to the peak", &recovery_result::dip);
  add_decile("peak", "largest decile in 50 to 90 % of the context", &recovery_result::peak);
  add_decile("end", "smallest decile after the peak", &recovery_result::end);
  of.add("rise", "peak less dip; empty where one is missing", &recovery_result::rise);
  of.add("fall", "peak less end; empty where one is missing", &recovery_result::fall);
  c.add("layers", "number of layers of a group", &row::layers);
  c.add("recovering_layers", "number of layers of a group whose mean profiles recover", &row::recovering_layers);
  c.add("recovering_heads", "number of heads of a group whose own profiles recover", &row::recovering_heads);
  return std::move(c).with_rows([&](const auto& f) {
    for (const auto& g : results)
      f(row{"model", &g, &g.mean, {}, {}, std::ssize(g.layers), g.recovering_layers(), g.recovering_heads()});
    if (results.empty()) return;
    for (const auto& [layer, r] : results[0].layers) f(row{"layer", &results[0], &r, layer});
    for (const auto& [h, r] : results[0].each)
      f(row{"head", &results[0], &r, report.heads[h].layer, report.heads[h].q_head});
  });
}

}  // namespace qkgeom::examples
