// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "qkgeom/plasticity/pair_terms.hpp"

namespace qkgeom {

QKGEOM_INLINE plasticity_profile_result term_profile(const plasticity_profile_result& profile, pair_term term) {
  auto result = profile;
  const auto n = profile.documents.size();
  for (auto& b : result.buckets) {
    require(b.term_sum.size() == n * pair_terms,
            "term_profile: the profile has no terms: ask for them with profile_options::terms");
    const auto first = b.term_sum.begin() + static_cast<index_t>(term) * std::ssize(profile.documents);
    b.document_sum.assign(first, first + std::ssize(profile.documents));
    b.term_sum.clear();
    b.plasticity = b.standard_error = b.sampling_error = std::numeric_limits<double>::quiet_NaN();
    if (b.queries >= 2) set_mean_and_error(b);
  }
  result.heatmap = {};
  return result;
}

namespace detail {

QKGEOM_INLINE std::size_t cell_index(const plasticity_heatmap& map, index_t key_distance, index_t query_distance) {
  require(!map.terms.weight.empty(),
          "the heatmap has no terms: ask for them with profile_options{.heatmap = true, .terms = true}");
  require(key_distance >= 0 && key_distance < map.width && query_distance >= 0 && query_distance < map.width,
          "the heatmap has no cell (", key_distance, ", ", query_distance, "): it is ", map.width, " cells wide");
  return key_distance * map.width + query_distance;
}

/// Mean of value `value` (0: plasticity, 1 + p: term p) of a cell. With sums S_g, W_g of document g of G and the mean S
/// / W the error is the infinitesimal jackknife's, (G / (G - 1) sum (S_g - S W_g / W)^2)^(1/2) / W.
QKGEOM_INLINE estimate estimate_of(const heatmap_terms& cells, std::size_t cell, std::size_t value) {
  estimate result;
  const double weight = cells.weight[cell], groups = cells.groups[cell];
  if (!(weight > 0)) return result;
  const auto i = cell * heatmap_terms::values + value;
  result.value = cells.sum[i] / weight;
  if (groups < least_documents) return result;
  const double square =
      cells.square[i] - 2 * result.value * cells.product[i] + result.value * result.value * cells.weight_square[cell];
  result.error = std::sqrt(groups / (groups - 1) * std::max(0.0, square)) / weight;
  result.freedom = groups - 1;
  return result;
}

}  // namespace detail

QKGEOM_INLINE estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance) {
  return detail::estimate_of(map.terms, detail::cell_index(map, key_distance, query_distance), 0);
}
QKGEOM_INLINE estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance,
                                 pair_term term) {
  return detail::estimate_of(map.terms, detail::cell_index(map, key_distance, query_distance),
                             1 + static_cast<std::size_t>(term));
}

}  // namespace qkgeom
