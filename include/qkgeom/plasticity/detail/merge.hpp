// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

namespace detail {

/// Moves document i of `values` (terms, documents) to place `places[i]` of `size`; values at one place add up.
QKGEOM_INLINE std::vector<double> moved(const std::vector<double>& values, const std::vector<std::size_t>& places,
                                        std::size_t size) {
  const auto n = places.size();
  std::vector<double> result(n == 0 ? 0 : values.size() / n * size);
  for (std::size_t i = 0; i < values.size(); ++i) result[i / n * size + places[i % n]] += values[i];
  return result;
}

/// Merges draws and terms, before the documents' sums. `places` are the places of the documents of `from` among the
/// `size` documents of both, which begin with the documents of `into`.
QKGEOM_INLINE void merge_terms(profile_bucket& into, const profile_bucket& from, const std::vector<std::size_t>& places,
                               std::size_t size) {
  require(into.term_sum.empty() == from.term_sum.empty(), "merge: only one of two profiles has terms");
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
  std::vector<std::size_t> first(into.term_sum.size() / pair_terms);
  std::iota(first.begin(), first.end(), std::size_t{0});
  into.term_sum = moved(into.term_sum, first, size);
  const auto more = moved(from.term_sum, places, size);
  for (std::size_t i = 0; i < more.size(); ++i) into.term_sum[i] += more[i];
}

/// Adds the cells of a heatmap over other groups, which is at most as wide.
QKGEOM_INLINE void merge_cells(heatmap_terms& into, index_t width, const heatmap_terms& from, index_t from_width) {
  require(into.weight.empty() == from.weight.empty(), "merge: only one of two heatmaps has terms");
  if (from.weight.empty()) return;
  for (const auto& [values, depth] : heatmap_arrays)
    for (index_t r = 0; r < from_width; ++r)
      for (index_t i = 0; i < from_width * depth; ++i)
        (into.*values)[r * width * depth + i] += (from.*values)[r * from_width * depth + i];
}

QKGEOM_INLINE void merge_heatmap(plasticity_heatmap& into, const plasticity_heatmap& from) {
  require(into.cell == from.cell, "merge: heatmaps of cells of ", into.cell, " and of ", from.cell,
          " tokens cannot be merged");
  if (into.width < from.width) {
    plasticity_heatmap wide{from.cell, from.width, {}, {}};
    wide.sum.resize(from.sum.size());
    wide.weight.resize(from.sum.size());
    if (!into.terms.weight.empty()) wide.terms = blank_cells(from.width * from.width);
    std::swap(into, wide);
    merge_heatmap(into, wide);
  }
  for (index_t r = 0; r < from.width; ++r)
    for (index_t c = 0; c < from.width; ++c) {
      const index_t cell = r * into.width + c, added = r * from.width + c;
      into.sum[cell] += from.sum[added];
      into.weight[cell] += from.weight[added];
    }
  merge_cells(into.terms, into.width, from.terms, from.width);
}

}  // namespace detail

QKGEOM_INLINE plasticity_profile_result merge(plasticity_profile_result a, const plasticity_profile_result& b) {
  require(a.covariance == b.covariance && a.model == b.model && a.buckets.size() == b.buckets.size() &&
              a.documents_weigh_same == b.documents_weigh_same,
          "merge: profiles under different query models or pair sets cannot be merged");
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    const auto &into = a.buckets[i], &from = b.buckets[i];
    require(into.start == from.start && into.end == from.end && into.queries == from.queries &&
                into.queries_used == from.queries_used,
            "merge: profiles over different query buckets cannot be merged");
  }
  if (b.documents.empty()) return a;  // without keys there are no terms either
  if (a.documents.empty()) return b;
  std::map<std::int32_t, std::size_t> place;
  for (std::size_t e = 0; e < a.documents.size(); ++e) place.emplace(a.documents[e], e);
  std::vector<std::size_t> place_in_a;
  for (const std::int32_t e : b.documents) {
    const auto [found, is_new] = place.try_emplace(e, place.size());
    if (is_new) a.documents.push_back(e);
    place_in_a.push_back(found->second);
  }
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    auto& into = a.buckets[i];
    const auto& from = b.buckets[i];
    into.pairs += from.pairs;
    detail::merge_terms(into, from, place_in_a, a.documents.size());
    into.document_sum.resize(a.documents.size());
    into.document_weight.resize(a.documents.size());
    for (std::size_t e = 0; e < place_in_a.size(); ++e) {
      into.document_sum[place_in_a[e]] += from.document_sum[e];
      into.document_weight[place_in_a[e]] += from.document_weight[e];
    }
    if (into.queries >= 2) set_mean_and_error(into);
  }
  detail::merge_heatmap(a.heatmap, b.heatmap);
  return a;
}

QKGEOM_INLINE void fold_documents(plasticity_profile_result& profile, index_t block) {
  require(block > 0, "fold_documents: a block holds at least one document, not ", block);
  if (block == 1) return;
  std::map<std::int32_t, std::size_t> place;
  std::vector<std::size_t> block_of;
  for (const std::int32_t e : profile.documents) {
    const auto first = e < 0 ? e : static_cast<std::int32_t>(e / block * block);
    block_of.push_back(place.try_emplace(first, place.size()).first->second);
  }
  std::vector<std::int32_t> documents(place.size());
  for (const auto& [id, number] : place) documents[number] = id;
  for (auto& b : profile.buckets) {
    for (auto* sums : {&b.document_sum, &b.document_weight, &b.term_sum})
      *sums = detail::moved(*sums, block_of, place.size());
    if (b.queries >= 2) set_mean_and_error(b);
  }
  profile.documents = std::move(documents);
}

}  // namespace qkgeom
