// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/study/drop_split.hpp"

namespace qkgeom {

/// The split of one query head.
struct head_drop {
  index_t layer = 0, q_head = 0, k_head = 0;
  bool rope = true;
  std::string_view covariance;  ///< of the query model
  bool turned_back = false;     ///< how keys were frozen: turned back, or pairs reweighed by distance
  drop_split split;
};

/// Means over a group of heads: drop, the causes in the order of `drop_cause`, rest.
struct drop_means {
  std::string name;
  index_t heads = 0;
  std::array<estimate, drop_causes + 2> mean;
};

/// Names of the columns of a split: the drop, its causes in the order of `drop_cause`, the rest.
inline std::vector<std::string> drop_names() {
  std::vector<std::string> names{"drop"};
  for (index_t p = 0; p < drop_causes; ++p) names.emplace_back(name_of(static_cast<drop_cause>(p)));
  names.push_back("rest");
  return names;
}

/// Means over the heads of each of `head_groups`; none if there are no heads.
inline std::vector<drop_means> mean_drops(const std::vector<head_drop>& heads) {
  std::vector<drop_means> groups;
  if (heads.empty()) return groups;
  for (const auto& [name, members] : head_groups(heads)) {
    std::vector<const drop_split*> chosen;
    for (const std::size_t h : members) chosen.push_back(&heads[h].split);
    drop_means g{name, static_cast<index_t>(chosen.size()), {}};
    for (std::size_t v = 0; v < g.mean.size(); ++v) g.mean[v] = mean_over_heads(chosen, static_cast<index_t>(v));
    groups.push_back(std::move(g));
  }
  return groups;
}

/// drop_split.csv: a row per head.
inline void write_drop_split_csv(const std::filesystem::path& path, const std::vector<head_drop>& heads) {
  std::vector<std::string> names{"layer", "q_head", "k_head", "rope", "covariance", "frozen_keys"};
  for (const auto& name : drop_names()) add_estimate_names(names, name);
  csv_writer csv(path, names);
  for (const auto& h : heads) {
    csv.add(h.layer).add(h.q_head).add(h.k_head).add(h.rope).add(h.covariance);
    csv.add(h.turned_back ? "turned_back" : "distances");
    add_estimate(csv, h.split.drop);
    for (const auto& p : h.split.cause) add_estimate(csv, p);
    add_estimate(csv, h.split.rest);
    csv.end_row();
  }
  csv.commit();
}

/// drop_means.csv: a row per group of heads.
inline void write_drop_means_csv(const std::filesystem::path& path, const std::vector<drop_means>& groups) {
  std::vector<std::string> names{"group", "heads"};
  for (const auto& name : drop_names()) add_estimate_names(names, name);
  csv_writer csv(path, names);
  for (const auto& g : groups) {
    csv.add(g.name).add(g.heads);
    for (const auto& m : g.mean) add_estimate(csv, m);
    csv.end_row();
  }
  csv.commit();
}

}  // namespace qkgeom
