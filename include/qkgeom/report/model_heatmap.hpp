// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/report/head_statistics.hpp"

namespace qkgeom {

/// Options of `heatmap_of`.
struct model_heatmap_options {
  double least_pairs = 30;  ///< a head counts in a cell from so many pairs (sum of weights) there
};

/// Mean over heads of their headline heatmaps, cell by cell.
struct model_heatmap {
  std::string group;
  index_t cell = 0, width = 0;     ///< tokens; cells along each side
  std::vector<double> plasticity;  ///< (key distance, query distance) mean of the heads' means; NaN without a head
  std::vector<double> head_error;  ///< of drawing the heads: their deviation over sqrt(heads); NaN below two
  std::vector<index_t> heads;      ///< with enough pairs in the cell
  std::vector<double> pairs;       ///< of those heads
};

/// The heatmap of the heads with these indices. Throws if their cells differ in width.
inline model_heatmap heatmap_of(const model_report& report, std::string group, const std::vector<std::size_t>& heads,
                                const model_heatmap_options& options = {}) {
  require(options.least_pairs > 0, "least_pairs must be above 0, not ", options.least_pairs);
  model_heatmap map;
  map.group = std::move(group);
  std::vector<const plasticity_heatmap*> each;
  for (const std::size_t h : heads) {
    if (report.heads[h].profiles.empty() || report.heads[h].profiles[0].heatmap.width == 0) continue;
    each.push_back(&report.heads[h].profiles[0].heatmap);
    require(each[0]->cell == each.back()->cell, "model heatmap: heads have cells of ", each[0]->cell, " and of ",
            each.back()->cell, " tokens");
    map.cell = each[0]->cell;
    map.width = std::max(map.width, each.back()->width);
  }
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j) {
      std::vector<double> means;
      double pairs = 0;
      for (const auto* m : each) {
        if (i >= m->width || j >= m->width) continue;
        const double weight = m->weight[i * m->width + j];
        if (!(weight >= options.least_pairs)) continue;
        means.push_back(m->mean(i, j));
        pairs += weight;
      }
      map.plasticity.push_back(statistic_of(head_statistic::mean, means));
      map.head_error.push_back(head_error_of(head_statistic::mean, means));
      map.heads.push_back(static_cast<index_t>(means.size()));
      map.pairs.push_back(pairs);
    }
  return map;
}

/// All heads, then those of RoPE and of NoPE layers apart where the model has both.
inline std::vector<model_heatmap> model_heatmaps(const model_report& report,
                                                 const model_heatmap_options& options = {}) {
  std::vector<model_heatmap> maps;
  for (const auto& [name, heads] : head_groups(report.heads)) maps.push_back(heatmap_of(report, name, heads, options));
  return maps;
}

/// model_heatmap.csv: a row per group of heads and cell that some head fills; distances in tokens, the cell's lower
/// edge.
inline void write_model_heatmap_csv(const std::filesystem::path& path, const std::vector<model_heatmap>& maps) {
  csv_writer csv(path, {"group", "key_distance", "query_distance", "plasticity", "head_error", "heads", "pairs"});
  for (const auto& m : maps)
    for (index_t i = 0; i < m.width; ++i)
      for (index_t j = 0; j < m.width; ++j) {
        const index_t at = i * m.width + j;
        if (m.heads[at] > 0)
          csv.row(m.group, i * m.cell, j * m.cell, m.plasticity[at], m.head_error[at], m.heads[at], m.pairs[at]);
      }
  csv.commit();
}

}  // namespace qkgeom
