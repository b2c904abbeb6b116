// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
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

namespace detail {

QKGEOM_INLINE std::size_t cell_index(const plasticity_heatmap& map, index_t key_distance, index_t query_distance) {
  require(!map.terms.weight.empty(),
          "the heatmap has no terms: ask for them with profile_options{.heatmap = true, .terms = true}");
  require(key_distance >= 0 && key_distance < map.width && query_distance >= 0 && query_distance < map.width,
          "the heatmap has no cell (", key_distance, ", ", query_distance, "): it is ", map.width, " cells wide");
  return key_distance * map.width + query_distance;
}

/// Returns the mean of value `value` (0: plasticity, 1 + p: term p) of a cell. With sums S_g, W_g of document g of G
/// and the mean S / W, the error is the infinitesimal jackknife's, (G / (G - 1) sum (S_g - S W_g / W)^2)^(1/2) / W.
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
