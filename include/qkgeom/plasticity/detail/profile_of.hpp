// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

QKGEOM_INLINE void set_mean_and_error(profile_bucket& bucket, bool documents_weigh_same) {
  const auto count = bucket.document_sum.size();
  if (documents_weigh_same)
    for (std::size_t e = 0; e < count; ++e)
      if (bucket.document_weight[e] > 0) {
        bucket.document_sum[e] /= bucket.document_weight[e];
        for (std::size_t t = e; t < bucket.term_sum.size(); t += count) bucket.term_sum[t] /= bucket.document_weight[e];
        bucket.document_weight[e] = 1;
      }
  const auto mean = ratio_of_sums(bucket.document_sum, bucket.document_weight);
  if (std::isnan(mean.value)) return;
  bucket.plasticity = mean.value;
  bucket.standard_error = mean.error;
  if (bucket.drawn == 0) bucket.sampling_error = 0;
}

QKGEOM_INLINE void check_models(const char* function, const std::vector<query_model>& models,
                                const layer_shape& layer) {
  require(static_cast<index_t>(models.size()) == layer.q.heads, function, ": ", models.size(), " query models for ",
          layer.q.heads, " query heads");
  const auto check_size = [&](const std::vector<double>& of_model) {
    require(static_cast<index_t>(of_model.size()) == layer.k.dim, function, ": a query model of head size ",
            of_model.size(), " for keys of size ", layer.k.dim);
  };
  for (const auto& m : models) {
    require(static_cast<index_t>(m.bucket.size()) == m.buckets.count(), function, ": a query model of ",
            m.bucket.size(), " buckets has edges of ", m.buckets.count());
    if (!m.reflector.empty()) check_size(m.reflector);
    for (const auto& b : m.bucket)
      if (b.queries >= 2) check_size(b.mean);
  }
}

QKGEOM_INLINE std::vector<pair_problem> pair_problems(const char* function, const std::vector<query_model>& models,
                                                      const layer_shape& layer) {
  check_models(function, models, layer);
  std::vector<pair_problem> problems;
  for (std::size_t h = 0; h < models.size(); ++h) {
    const auto& m = models[h];
    pair_problem p{layer.key_of_query[h], m.reflector, {}};
    for (index_t b = 0; b < m.buckets.count(); ++b) p.distributions.push_back(scores_of(m, b, layer.window));
    problems.push_back(std::move(p));
  }
  return problems;
}

namespace detail {

/// Returns the standard error of a mean over n draws with replacement, from their weighted mean and mean square.
QKGEOM_INLINE double draws_error(double mean, double mean_square, double n) {
  return n > 1 ? std::sqrt(std::max(0.0, mean_square - mean * mean) / (n - 1))
               : std::numeric_limits<double>::quiet_NaN();
}

QKGEOM_INLINE void fill_bucket(profile_bucket& b, const pair_sums& sums, index_t distribution,
                               const std::vector<index_t>& members, bool documents_weigh_same) {
  const auto n = members.size();
  const bool modelled = b.queries >= 2;
  double square = 0, weight = 0;
  b.term_sum.resize(sums.term_sum.empty() ? 0 : n * pair_terms);
  for (std::size_t e = 0; e < n; ++e) {
    const auto s = sums.at(distribution, members[e]);
    b.document_sum.push_back(sums.sum[s]);
    b.document_weight.push_back(sums.weight[s]);
    b.pairs += modelled ? sums.pairs[s] : 0;
    for (std::size_t p = 0; p < b.term_sum.size() / n; ++p) b.term_sum[p * n + e] = sums.term_sum[s * pair_terms + p];
    if (sums.drawn.empty()) continue;
    b.drawn += sums.drawn[s];
    square += sums.square[s];
    weight += sums.weight[s];
  }
  if (!modelled) return;
  set_mean_and_error(b, documents_weigh_same);
  if (b.drawn > 0) b.sampling_error = draws_error(b.plasticity, square / weight, static_cast<double>(b.drawn));
}

QKGEOM_INLINE plasticity_profile_result profile_of(const bucket_edges& edges, const std::vector<index_t>& queries,
                                                   pair_sums&& sums, const std::vector<std::int32_t>& documents,
                                                   std::string_view covariance, bool documents_weigh_same) {
  plasticity_profile_result r{covariance, documents_weigh_same, documents, {}, {}};
  std::vector<index_t> all(sums.groups);
  std::iota(all.begin(), all.end(), index_t{0});
  for (index_t b = 0; b < edges.count(); ++b) {
    profile_bucket out;
    out.start = edges.start(b);
    out.end = edges.end(b);
    out.queries = queries[b];
    fill_bucket(out, sums, b, all, documents_weigh_same);
    r.buckets.push_back(std::move(out));
  }
  r.heatmap.width = sums.heatmap_width;
  r.heatmap.sum = std::move(sums.heatmap_sum);
  r.heatmap.weight = std::move(sums.heatmap_weight);
  r.heatmap.terms = std::move(sums.cells);
  return r;
}

}  // namespace detail

QKGEOM_INLINE plasticity_profile_result term_profile(const plasticity_profile_result& profile, pair_term term) {
  plasticity_profile_result result{
      profile.covariance, profile.documents_weigh_same, profile.documents, profile.buckets, {}, profile.model};
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
  return result;
}

QKGEOM_INLINE estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance,
                                 std::optional<pair_term> term) {
  const auto& cells = map.terms;
  require(!cells.weight.empty(),
          "the heatmap has no terms: ask for them with profile_options{.heatmap = true, .terms = true}");
  require(key_distance >= 0 && key_distance < map.width && query_distance >= 0 && query_distance < map.width,
          "the heatmap has no cell (", key_distance, ", ", query_distance, "): it is ", map.width, " cells wide");
  const auto cell = static_cast<std::size_t>(key_distance * map.width + query_distance);
  const double weight = cells.weight[cell], groups = cells.groups[cell];
  estimate result;
  if (!(weight > 0)) return result;
  const auto i = cell * heatmap_terms::values + (term ? 1 + static_cast<std::size_t>(*term) : 0);
  result.value = cells.sum[i] / weight;
  if (groups < least_documents) return result;
  const double square =
      cells.square[i] - 2 * result.value * cells.product[i] + result.value * result.value * cells.weight_square[cell];
  result.error = std::sqrt(groups / (groups - 1) * std::max(0.0, square)) / weight;
  result.freedom = groups - 1;
  return result;
}

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
