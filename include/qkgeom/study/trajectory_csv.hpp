// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/study/trajectory_changes.hpp"

namespace qkgeom {

/// trajectory.csv: a row per checkpoint and group of heads (all, rope, nope); for every column c of heads.csv c_mean,
/// c_mean_abs and c_median over heads, for every class its share, each followed by `_error` (jackknife over documents:
/// with PCA and rotation found again, plasticity given the query model) and `_head_error` (of drawing the heads).
inline void write_trajectory_csv(const std::filesystem::path& path, const std::vector<trajectory_point>& points) {
  for (const auto& p : points) check_comparable(points.at(0), p);
  std::vector<std::string> names{"step", "checkpoint", "group", "heads", "context_length", "documents", "heldout_loss"};
  for (const head_class c : all_head_classes) add_head_estimate_names(names, "share_" + std::string(name_of(c)));
  for (const auto& column : points.at(0).columns)
    for (const head_statistic s : all_head_statistics)
      add_head_estimate_names(names, column.name + "_" + std::string(name_of(s)));
  csv_writer csv(path, names);
  for (std::size_t i = 0; i < points.size(); ++i)
    for (const auto& [name, group] : head_groups(points[i].heads)) {
      csv.add(i).add(points[i].label).add(name).add(group.size()).add(points[i].context_length);
      csv.add(points[i].blocks.document.size()).add(points[i].heldout_loss);
      for (const head_class c : all_head_classes) add_estimate(csv, class_share(points[i], group, c));
      for (const auto& column : points[i].columns)
        for (const head_statistic s : all_head_statistics) add_estimate(csv, over_heads(column, group, s));
      csv.end_row();
    }
  csv.commit();
}

/// transitions.csv: for consecutive checkpoints, then from the first to the last, and each group, a row per pair
/// of head classes with the number and the share of heads that changed so.
inline void write_transitions_csv(const std::filesystem::path& path, const std::vector<trajectory_point>& points) {
  csv_writer csv(
      path, {"from", "to", "group", "from_class", "to_class", "heads", "share", "share_error", "share_head_error"});
  for (const auto& [i, j] : checkpoint_steps(points))
    for (const auto& [name, group] : head_groups(points[i].heads))
      for (const auto& t : class_transitions(points[i], points[j], group)) {
        csv.add(points[i].label).add(points[j].label).add(name);
        csv.add(name_of(t.from)).add(name_of(t.to)).add(t.heads);
        add_estimate(csv, t.share);
        csv.end_row();
      }
  csv.commit();
}

/// bias_split.csv: for the same pairs of checkpoints, signed and absolute means, per token and per context, the factors
/// of the mean bias at both ends and the changes of their logs (see `split_bias`).
inline void write_bias_split_csv(const std::filesystem::path& path, const std::vector<trajectory_point>& points) {
  std::vector<std::string> names{"from", "to", "group", "means", "unit"};
  for (const char* end : {"from", "to"})
    for (const char* factor : {"bias_", "mu_q_a_", "alpha_k_", "covariance_factor_"})
      names.push_back(std::string(factor) + end);
  for (const char* part : {"log_bias", "log_mu_q_a", "log_alpha_k", "log_covariance"})
    add_head_estimate_names(names, part);
  csv_writer csv(path, names);
  for (const auto& [i, j] : checkpoint_steps(points))
    for (const auto& [name, group] : head_groups(points[i].heads))
      for (const bool absolute : {false, true})
        for (const bool per_context : {false, true}) {
          const auto s = split_bias(points[i], points[j], group, absolute, per_context);
          csv.add(points[i].label).add(points[j].label).add(name).add(absolute ? "absolute" : "signed");
          csv.add(per_context ? "context" : "token");
          for (const auto* f : {&s.from, &s.to}) csv.add(f->bias).add(f->mu).add(f->alpha).add(f->covariance);
          for (const auto* e : {&s.bias, &s.mu, &s.alpha, &s.covariance}) add_estimate(csv, *e);
          csv.end_row();
        }
  csv.commit();
}

}  // namespace qkgeom
