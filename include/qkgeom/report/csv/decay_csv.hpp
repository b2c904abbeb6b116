// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/plasticity/decay.hpp"
#include "qkgeom/report/estimate_columns.hpp"

namespace qkgeom {

/// The decay theorem on one head of a model.
struct head_decay {
  index_t layer = 0, q_head = 0, k_head = 0;
  decay_check decay;
};

/// decay.csv: a row per head and covariance (`full`, `pooled`): constants of the theorem over pairs of keys (10 %, 50
/// %, 90 % quantiles; slopes per token, t_0 in tokens), pi_0, AP_infinity, and over all pairs and buckets the share
/// past T_0 and the share that breaks the bound there; `_error` is the jackknife over documents, given the query model.
inline void write_decay_csv(const std::filesystem::path& path, const std::vector<head_decay>& heads) {
  std::vector<std::string> names{"layer",     "q_head",   "k_head", "covariance",
                                 "alpha_pos", "beta_pos", "pairs",  "all_pairs"};
  for (const char* spread : {"gamma", "abs_gamma", "z_0", "t_0", "variance_relative_slope"})
    for (const char* share : {"_p10", "_median", "_p90"}) names.push_back(std::string(spread) + share);
  for (const char* mean : {"variance_slope", "pi_0", "ap_infinity", "past", "broken"}) add_estimate_names(names, mean);
  csv_writer csv(path, names);
  for (const auto& h : heads)
    for (const auto* r : {&h.decay.full, &h.decay.pooled}) {
      csv.add(h.layer).add(h.q_head).add(h.k_head).add(r->covariance);
      csv.add(r->alpha_pos).add(r->beta_pos).add(r->pairs).add(r->all_pairs);
      for (const auto* s : {&r->gamma, &r->abs_gamma, &r->z_0, &r->t_0, &r->variance_slope})
        csv.add(s->p10).add(s->median).add(s->p90);
      for (const auto* m : {&r->variance_slope_mean, &r->pi_0, &r->ap_infinity, &r->past, &r->broken})
        add_estimate(csv, *m);
      csv.end_row();
    }
  csv.commit();
}

/// decay_profile.csv: a row per head, covariance and query bucket: AP_t of the same pairs, the aggregate bound
/// mean(min(1, exp(-gamma^2 t^2 / 8))), the bound with 1 for pairs before T_0 (`promised`), and the shares.
inline void write_decay_profile_csv(const std::filesystem::path& path, const std::vector<head_decay>& heads) {
  std::vector<std::string> names{"layer", "q_head", "k_head", "covariance", "start", "end", "tau", "pairs"};
  for (const char* mean : {"plasticity", "bound", "promised", "past", "broken"}) add_estimate_names(names, mean);
  csv_writer csv(path, names);
  for (const auto& h : heads)
    for (const auto* r : {&h.decay.full, &h.decay.pooled})
      for (const auto& b : r->buckets) {
        csv.add(h.layer).add(h.q_head).add(h.k_head).add(r->covariance);
        csv.add(b.start).add(b.end).add(b.tau).add(b.pairs);
        for (const auto* m : {&b.plasticity, &b.bound, &b.promised, &b.past, &b.broken}) add_estimate(csv, *m);
        csv.end_row();
      }
  csv.commit();
}

}  // namespace qkgeom
