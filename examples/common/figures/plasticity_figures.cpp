// SPDX-License-Identifier: MIT
// Figures of a report's profiles and heatmaps.

#include "examples/common/figures/head_cells.hpp"
#include "examples/common/numbers/head_values.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {

namespace {

/// A group of line_figure for some heads: their mean in each query bucket with its 95 % interval, by a jackknife that
/// leaves one document out of all heads at once.
line_figure::group mean_line(const std::vector<head_values>& buckets, const std::vector<std::size_t>& heads,
                             std::string name) {
  line_figure::group g;
  g.name = std::move(name);
  for (const auto& bucket : buckets) {
    const auto mean = over_heads(bucket, heads, head_statistic::mean);
    g.mean.push_back(mean.value);
    g.error.push_back(half_width(mean));
  }
  return g;
}

std::string headline_of(const model_report& report) {
  return report.heads.empty() || report.heads[0].profiles.empty() ? "no"
                                                                  : std::string(report.heads[0].profiles[0].covariance);
}

}  // namespace

std::string pairs_words(const model_report& report) {
  bool drawn = false, across = false;
  for (const auto& h : report.heads) {
    if (h.profiles.empty()) continue;
    for (const auto& b : h.profiles[0].buckets) drawn |= b.drawn > 0;
    for (const std::int32_t e : h.profiles[0].documents) across |= e < 0;
  }
  return std::string(drawn ? "drawn" : "all") + " pairs of keys" + (across ? "" : " of a document") +
         (report.weighting == pair_weighting::documents        ? ", every document counting once"
          : report.weighting == pair_weighting::prefix_uniform ? ", weighted as Definition 4.3 draws them"
                                                               : "");
}

line_figure profile_figure(const model_report& report) {
  line_figure f;
  const bool both = has_both_kinds(report);
  const auto buckets = plasticity_by_bucket(report), observed = plasticity_by_bucket(with_headline(report, -1));
  for (const bool rope : {true, false}) {
    std::vector<std::size_t> heads;
    std::vector<std::vector<double>> traces;
    bool has_observed = false;
    for (std::size_t i = 0; i < report.heads.size(); ++i) {
      const auto& h = report.heads[i];
      if (h.rope != rope || h.profiles.empty()) continue;
      heads.push_back(i);
      auto& trace = traces.emplace_back();
      for (const auto& b : h.profiles[0].buckets) trace.push_back(b.plasticity);
      has_observed = has_observed || h.empirical;
    }
    if (heads.empty()) continue;
    const std::string kind = both ? rope ? "RoPE: " : "NoPE: " : "";
    auto g = mean_line(buckets, heads, kind + "mean of " + counted(heads.size(), "head"));
    g.line = rope ? rope_colour : nope_colour;
    g.traces = std::move(traces);
    f.groups.push_back(g);
    if (!has_observed) continue;
    auto o = mean_line(observed, heads, kind + "observed queries");
    o.line = g.line;
    o.error.clear();
    o.dashed = true;
    f.groups.push_back(std::move(o));
  }
  f.text = {"Attention plasticity along the context",
            report.model + brief_notes(report) + ", " + headline_of(report) + " query model, " + pairs_words(report) +
                "; " + heads_words(f) + ", band: 95 % interval",
            "query position (tokens, K = 1024)", "plasticity"};
  set_positions(f, report.buckets, report.context_length);
  return f;
}

map_figure plasticity_map(const model_report& report) {
  map_figure f;
  f.text = {"Plasticity by layer and head", about(report) + ", " + headline_of(report) + " query model, whole context",
            "query head", "layer"};
  f.panels.push_back({"ap_overall", cells_of(report, f, [](const head_report& h) {
                        return h.summaries.empty() ? no_value : h.summaries[0].overall.value;
                      })});
  f.scale_label = "plasticity";
  return f;
}

heatmap_figure mean_heatmap(const model_report& report, double min_pairs) {
  heatmap_figure f;
  f.scale_label = "plasticity";
  f.text = {"Plasticity by the distances of two keys and the query",
            about(report) + ", mean over heads, " + headline_of(report) + " query model; white: no head has " +
                std::to_string(static_cast<int>(min_pairs)) + " pairs",
            "distance between the two keys (tokens, K = 1024)", "distance of the query from the keys' middle (tokens)"};
  for (const auto& h : report.heads)
    if (!h.profiles.empty()) f.width = std::max(f.width, std::size_t(h.profiles[0].heatmap.width));
  std::vector<double> sum(f.width * f.width), heads(sum.size());
  for (const auto& h : report.heads) {
    if (h.profiles.empty() || std::size_t(h.profiles[0].heatmap.width) != f.width) continue;
    const auto& map = h.profiles[0].heatmap;
    f.cell = static_cast<double>(map.cell);
    for (std::size_t i = 0; i < sum.size(); ++i)
      if (map.weight[i] >= min_pairs) {
        sum[i] += map.sum[i] / map.weight[i];
        ++heads[i];
      }
  }
  for (std::size_t i = 0; i < sum.size(); ++i) f.values.push_back(heads[i] > 0 ? sum[i] / heads[i] : no_value);
  return f;
}

}  // namespace qkgeom::examples
