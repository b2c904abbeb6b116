// SPDX-License-Identifier: MIT
// Figures of a report's profiles and heatmaps.
#include <cmath>
#include <map>

#include "examples/common/figures/head_cells.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {

namespace {

struct mean_line {
  std::vector<double> mean, half_width;  ///< of the 95 % interval
};

/// Mean over heads in each query bucket; its interval is by a jackknife that leaves one document out of all heads at
/// once.
mean_line mean_over_heads(const std::vector<const plasticity_profile_result*>& profiles) {
  mean_line line;
  const std::size_t buckets = profiles.empty() ? 0 : profiles[0]->buckets.size();
  for (std::size_t b = 0; b < buckets; ++b) {
    double sum = 0, heads = 0;
    std::map<std::int32_t, std::pair<double, double>> change;  // document -> change of sum and heads without it
    for (const auto* p : profiles) {
      const auto& bucket = p->buckets[b];
      if (!std::isfinite(bucket.plasticity)) continue;
      sum += bucket.plasticity;
      ++heads;
      double total = 0, weight = 0;
      for (std::size_t e = 0; e < p->documents.size(); ++e) {
        total += bucket.document_sum[e];
        weight += bucket.document_weight[e];
      }
      for (std::size_t e = 0; e < p->documents.size(); ++e) {
        if (!(bucket.document_weight[e] > 0)) continue;
        const double rest = weight - bucket.document_weight[e];
        auto& c = change[p->documents[e]];
        c.first += (rest > 0 ? (total - bucket.document_sum[e]) / rest : 0.0) - bucket.plasticity;
        c.second -= rest > 0 ? 0 : 1;
      }
    }
    std::vector<double> without;
    for (const auto& [document, c] : change)
      without.push_back(heads + c.second > 0 ? (sum + c.first) / (heads + c.second) : no_value);
    line.mean.push_back(heads > 0 ? sum / heads : no_value);
    line.half_width.push_back(half_width(jackknife(line.mean.back(), without)));
  }
  return line;
}

void add_kind(line_figure& f, const model_report& report, bool rope, bool named) {
  std::vector<const plasticity_profile_result*> profiles;
  std::vector<plasticity_profile_result> observed;
  line_figure::group g;
  for (const auto& h : report.heads) {
    if (h.rope != rope || h.profiles.empty()) continue;
    profiles.push_back(&h.profiles[0]);
    std::vector<double> trace;
    for (const auto& b : h.profiles[0].buckets) trace.push_back(b.plasticity);
    g.traces.push_back(std::move(trace));
    if (h.empirical) observed.push_back(unbiased(*h.empirical));
  }
  if (profiles.empty()) return;
  const std::string kind = named ? rope ? "RoPE: " : "NoPE: " : "";
  auto line = mean_over_heads(profiles);
  g.name = kind + "mean of " + counted(profiles.size(), "head");
  g.line = rope ? rope_colour : nope_colour;
  g.mean = std::move(line.mean);
  g.error = std::move(line.half_width);
  f.groups.push_back(std::move(g));
  if (observed.empty()) return;
  std::vector<const plasticity_profile_result*> seen;
  for (const auto& p : observed) seen.push_back(&p);
  line_figure::group o;
  o.name = kind + "observed queries";
  o.line = rope ? rope_colour : nope_colour;
  o.mean = mean_over_heads(seen).mean;
  o.dashed = true;
  f.groups.push_back(std::move(o));
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
  add_kind(f, report, true, has_both_kinds(report));
  add_kind(f, report, false, has_both_kinds(report));
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
