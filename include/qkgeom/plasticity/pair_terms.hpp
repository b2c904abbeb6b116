// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// The profile of one `pair_term` instead of the plasticity: `plasticity` and `standard_error` of its buckets are the
/// term's mean over the same pairs and its jackknife error over documents, so that everything that reads a profile
/// reads it too. Throws if the profile was made without `profile_options::terms`.
inline plasticity_profile_result term_profile(const plasticity_profile_result& profile, pair_term term) {
  auto result = profile;
  const auto n = profile.documents.size();
  for (auto& b : result.buckets) {
    require(b.term_sum.size() == n * pair_terms,
            "part_profile: the profile has no parts: ask for them with profile_options::parts");
    const auto first = b.term_sum.begin() + static_cast<index_t>(static_cast<std::size_t>(term) * n);
    b.document_sum.assign(first, first + static_cast<index_t>(n));
    b.term_sum.clear();
    b.plasticity = b.standard_error = b.sampling_error = std::numeric_limits<double>::quiet_NaN();
    if (b.queries >= 2) detail::finish_bucket(b, false);  // documents of one weight each have it already
  }
  result.heatmap = {};
  return result;
}

namespace detail {

/// S / W of a cell with the infinitesimal jackknife over its G documents, G / (G - 1) sum (S_g - S W_g / W)^2 / W^2,
/// which is what sums over documents can give without keeping each.
inline estimate estimate_of(const heatmap_terms& x, std::size_t cell, std::size_t value) {
  estimate result;
  const double weight = x.weight[cell], groups = x.groups[cell];
  if (!(weight > 0)) return result;
  const auto at = cell * heatmap_terms::values + value;
  result.value = x.sum[at] / weight;
  if (groups < 2) return result;
  const double square =
      x.square[at] - 2 * result.value * x.product[at] + result.value * result.value * x.weight_square[cell];
  result.error = std::sqrt(groups / (groups - 1) * std::max(0.0, square)) / weight;
  return result;
}

inline std::size_t cell_index(const plasticity_heatmap& map, index_t key_distance, index_t query_distance) {
  require(!map.terms.weight.empty(),
          "the heatmap has no parts: ask for them with profile_options{.heatmap = true, .parts = true}");
  require(key_distance >= 0 && key_distance < map.width && query_distance >= 0 && query_distance < map.width,
          "the heatmap has no cell (", key_distance, ", ", query_distance, "): it is ", map.width, " cells wide");
  return static_cast<std::size_t>(key_distance * map.width + query_distance);
}

/// Rows of `values` (rows, from) by their new places `to` among `size`; values that share a place add up.
inline std::vector<double> moved(const std::vector<double>& values, const std::vector<std::size_t>& to,
                                 std::size_t size) {
  const auto from = to.size();
  std::vector<double> result(from == 0 ? 0 : values.size() / from * size);
  for (std::size_t i = 0; i < values.size(); ++i) result[i / from * size + to[i % from]] += values[i];
  return result;
}

/// What `from` knows beside its plasticity into `into`: draws and terms. `to`: places of the documents of `from` among
/// the `size` of both, of which those of `into` are the first. To be called while both hold their own sums.
inline void merge_terms(profile_bucket& into, const profile_bucket& from, const std::vector<std::size_t>& to,
                        std::size_t size) {
  require(into.term_sum.empty() == from.term_sum.empty(), "merge: only one of two profiles has parts");
  const auto total = [](const profile_bucket& b) {
    double weight = 0;
    for (const double w : b.document_weight) weight += w;
    return weight;
  };
  const double a = total(into), b = total(from);
  const auto variance = [](double weight, double error) { return weight > 0 ? weight * weight * error * error : 0.0; };
  if (a + b > 0)
    into.sampling_error = std::sqrt(variance(a, into.sampling_error) + variance(b, from.sampling_error)) / (a + b);
  into.drawn += from.drawn;
  if (into.term_sum.empty()) return;
  std::vector<std::size_t> own(into.term_sum.size() / pair_terms);
  std::iota(own.begin(), own.end(), std::size_t{0});
  into.term_sum = moved(into.term_sum, own, size);
  const auto more = moved(from.term_sum, to, size);
  for (std::size_t i = 0; i < more.size(); ++i) into.term_sum[i] += more[i];
}

/// Cells of two heatmaps, the second at most as wide, over different groups.
inline void merge_cells(heatmap_terms& into, index_t width, const heatmap_terms& from, index_t from_width) {
  require(into.weight.empty() == from.weight.empty(), "merge: only one of two heatmaps has parts");
  if (from.weight.empty()) return;
  for (const auto& [values, depth] : heatmap_arrays)
    for (index_t r = 0; r < from_width; ++r)
      for (index_t i = 0; i < from_width * depth; ++i)
        (into.*values)[r * width * depth + i] += (from.*values)[r * from_width * depth + i];
}

}  // namespace detail

/// Mean plasticity of a heatmap's cell with its error over documents; cells are named by their numbers.
inline estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance) {
  return detail::estimate_of(map.terms, detail::cell_index(map, key_distance, query_distance), 0);
}

/// The same of a term.
inline estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance, pair_term term) {
  return detail::estimate_of(map.terms, detail::cell_index(map, key_distance, query_distance),
                             1 + static_cast<std::size_t>(term));
}

}  // namespace qkgeom
