// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "qkgeom/report/head_report.hpp"

namespace qkgeom::python {

/// Query buckets: a width in tokens, or ascending edges.
using buckets_argument = std::variant<index_t, std::vector<index_t>>;

/// Query models: one, or several.
using covariance_argument = std::variant<std::string, std::vector<std::string>>;
inline std::vector<std::string> names_of(const covariance_argument& covariance) {
  if (const auto* one = std::get_if<std::string>(&covariance)) return {*one};
  return std::get<std::vector<std::string>>(covariance);
}

inline covariance_kind covariance_of(const std::string& name) {
  for (const covariance_kind kind : all_covariance_kinds)
    if (name == name_of(kind)) return kind;
  fail("covariance must be diagonal, full, joint, linear_drift or empirical, not ", name);
}

/// What `analyse` and `open` share.
inline analysis_options options_of(const std::optional<buckets_argument>& buckets,
                                   const std::vector<std::string>& covariance, const std::string& pairs,
                                   index_t sampled_pairs, bool heatmap, std::uint64_t seed) {
  analysis_options o;
  if (buckets) {
    if (const auto* edges = std::get_if<std::vector<index_t>>(&*buckets))
      o.bucket_edges = *edges;
    else {
      o.bucket_size = std::get<index_t>(*buckets);
      require(o.bucket_size > 0, "buckets must be a width of at least 1 token or ascending edges, not ", o.bucket_size);
    }
  }
  o.covariances.clear();
  o.empirical = false;
  for (const auto& name : covariance)
    if (name == "empirical")
      o.empirical = true;
    else
      o.covariances.push_back(covariance_of(name));
  require(!o.covariances.empty(), "covariance must name a query model beside empirical, e.g. joint");
  if (pairs == "per_document")
    o.weighting = pair_weighting::documents;
  else if (pairs == "prefix_uniform")
    o.weighting = pair_weighting::prefix_uniform;
  else
    require(pairs == "all", "pairs must be all, per_document or prefix_uniform, not ", pairs);
  require(sampled_pairs == 0 || sampled_pairs >= 2, "sampled_pairs must be 0 or at least 2 pairs a query bucket, not ",
          sampled_pairs);
  o.empirical = o.empirical && o.weighting == pair_weighting::pairs;  // else of other pairs
  o.sampled_pairs = sampled_pairs;
  o.heatmap = heatmap;
  o.seed = seed;
  return o;
}

}  // namespace qkgeom::python
