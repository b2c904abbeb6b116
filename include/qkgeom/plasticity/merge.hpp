// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "qkgeom/plasticity/pair_terms.hpp"

namespace qkgeom {

namespace detail {

inline void merge_heatmap(plasticity_heatmap& into, const plasticity_heatmap& from) {
  require(into.cell == from.cell, "merge: heatmaps of cells of ", into.cell, " and of ", from.cell,
          " tokens cannot be merged");
  if (into.width < from.width) {
    plasticity_heatmap wide{from.cell, from.width, {}, {}};
    wide.sum.resize(from.sum.size());
    wide.weight.resize(from.sum.size());
    if (!into.terms.weight.empty()) wide.terms = blank_cells(static_cast<std::size_t>(from.width * from.width));
    std::swap(into, wide);
    merge_heatmap(into, wide);
  }
  for (index_t r = 0; r < from.width; ++r)
    for (index_t c = 0; c < from.width; ++c) {
      const auto to = static_cast<std::size_t>(r * into.width + c), at = static_cast<std::size_t>(r * from.width + c);
      into.sum[to] += from.sum[at];
      into.weight[to] += from.weight[at];
    }
  merge_cells(into.terms, into.width, from.terms, from.width);
}

}  // namespace detail

/// Counts the documents e of a profile in blocks e / block, which stand under the id of their first document: what a
/// profile keeps then no longer grows with the documents, and its jackknife leaves out a block at a time. Means stay as
/// they are. `block` = 1 changes nothing.
inline void fold_documents(plasticity_profile_result& p, index_t block) {
  require(block > 0, "fold_documents: a block holds at least one document, not ", block);
  if (block == 1) return;
  std::map<std::int32_t, std::size_t> place;
  std::vector<std::size_t> to;
  for (const std::int32_t e : p.documents) {
    const auto first = e < 0 ? e : static_cast<std::int32_t>(e / block * block);
    to.push_back(place.try_emplace(first, place.size()).first->second);
  }
  std::vector<std::int32_t> documents(place.size());
  for (const auto& [id, at] : place) documents[at] = id;
  for (auto& b : p.buckets) {
    std::vector<double> sum(place.size()), weight(place.size());
    for (std::size_t e = 0; e < to.size(); ++e) {
      sum[to[e]] += b.document_sum[e];
      weight[to[e]] += b.document_weight[e];
    }
    b.document_sum = std::move(sum);
    b.document_weight = std::move(weight);
    b.term_sum = detail::moved(b.term_sum, to, place.size());
    if (b.queries >= 2) detail::finish_bucket(b, false);
  }
  p.documents = std::move(documents);
}

/// The profile of the pairs behind `a` and `b` together: of one head under one query model, over keys of different
/// documents or different terms of a document block. Throws if the models, buckets or heatmap cells differ, since pair
/// sums mean nothing across models.
inline plasticity_profile_result merge(plasticity_profile_result a, const plasticity_profile_result& b) {
  require(a.covariance == b.covariance && a.model == b.model && a.buckets.size() == b.buckets.size() &&
              a.documents_weigh_same == b.documents_weigh_same,
          "merge: profiles under different query models or pair sets cannot be merged");
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    const auto &into = a.buckets[i], &from = b.buckets[i];
    require(into.start == from.start && into.end == from.end && into.queries == from.queries &&
                into.queries_used == from.queries_used,
            "merge: profiles over different query buckets cannot be merged");
  }
  if (b.documents.empty()) return a;  // no key, and so neither pairs nor their terms
  if (a.documents.empty()) return b;
  std::map<std::int32_t, std::size_t> place;
  for (std::size_t e = 0; e < a.documents.size(); ++e) place.emplace(a.documents[e], e);
  std::vector<std::size_t> to;
  for (const std::int32_t e : b.documents) {
    const auto [at, is_new] = place.try_emplace(e, place.size());
    if (is_new) a.documents.push_back(e);
    to.push_back(at->second);
  }
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    auto& into = a.buckets[i];
    const auto& from = b.buckets[i];
    into.pairs += from.pairs;
    detail::merge_terms(into, from, to, a.documents.size());
    into.document_sum.resize(a.documents.size());
    into.document_weight.resize(a.documents.size());
    for (std::size_t e = 0; e < to.size(); ++e) {
      into.document_sum[to[e]] += from.document_sum[e];
      into.document_weight[to[e]] += from.document_weight[e];
    }
    if (into.queries >= 2) detail::finish_bucket(into, false);
  }
  detail::merge_heatmap(a.heatmap, b.heatmap);
  return a;
}

}  // namespace qkgeom
