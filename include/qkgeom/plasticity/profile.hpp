// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/pair_sets.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// Attention plasticity of one query bucket.
struct profile_bucket {
  index_t start = 0, end = 0;  ///< tokens
  index_t queries = 0;
  index_t queries_used = 0;  ///< of these, by the observed form: p is a share of so many; 0 under a query model
  std::int64_t pairs = 0;
  double plasticity = std::numeric_limits<double>::quiet_NaN();  ///< NaN (null) without a model or without pairs
  double standard_error =
      std::numeric_limits<double>::quiet_NaN();       ///< jackknife over documents, given the query model
  std::vector<double> document_sum, document_weight;  ///< (documents) what the mean is made of
  std::int64_t drawn = 0;                             ///< pairs drawn of `pairs`; 0: all were used
  double sampling_error = std::numeric_limits<double>::quiet_NaN();  ///< of the drawn pairs as a stand-in for all; or 0
  std::vector<double> term_sum;  ///< (pair_terms, documents) if asked for: the same for the terms (pair_parts.hpp)

  double middle() const { return 0.5 * static_cast<double>(start + end); }
};

/// Mean plasticity over pairs by |t_i - t_j| and tau - (t_i + t_j) / 2.
struct plasticity_heatmap {
  index_t cell = 0;                 ///< cell width, tokens
  index_t width = 0;                ///< cells along each side
  std::vector<double> sum, weight;  ///< (key distance, query distance)
  heatmap_terms terms{};            ///< if terms were asked for: see `cell_mean` of pair_parts.hpp

  double mean(index_t key_distance, index_t query_distance) const {
    const auto at = static_cast<std::size_t>(key_distance * width + query_distance);
    return weight[at] > 0 ? sum[at] / weight[at] : std::numeric_limits<double>::quiet_NaN();
  }
};

/// Plasticity over query buckets (4.4.5).
struct plasticity_profile_result {
  std::string_view covariance;  ///< the model behind it: a covariance kind, or "empirical"
  bool documents_weigh_same = false;
  std::vector<std::int32_t> documents;  ///< document ids behind the document sums; -1: all documents as one
  std::vector<profile_bucket> buckets;
  plasticity_heatmap heatmap;  ///< width 0 if not asked for
  std::uint64_t model = 0;     ///< fingerprint of the query model; 0 for the observed queries
};

struct profile_options {
  bool heatmap = false;
  index_t heatmap_cell = 0;                   ///< tokens; 0: the first query bucket's width, or a 256th of all
  std::optional<pair_precision> precision{};  ///< none: f64 pair arithmetic for f64 keys, else f32
  bool terms = false;  ///< what stands behind the plasticity too (pair_parts.hpp), by a slower kernel in f64
};

namespace detail {

/// Rows of k by (document, position); across documents by position alone.
inline keys_by_document order_keys_by_document(const vector_view<const std::int32_t>& position,
                                               const vector_view<const std::int32_t>& document, bool across) {
  keys_by_document g;
  g.row.resize(position.size);
  std::iota(g.row.begin(), g.row.end(), std::int64_t{0});
  const auto before = [&](std::int64_t a, std::int64_t b) {
    if (!across && document[a] != document[b]) return document[a] < document[b];
    return position[a] < position[b];
  };
  if (!std::is_sorted(g.row.begin(), g.row.end(), before)) std::stable_sort(g.row.begin(), g.row.end(), before);
  g.offset.push_back(0);
  for (std::size_t i = 0; i < g.row.size(); ++i) {
    if (i == 0 || (!across && document[g.row[i]] != g.document.back())) {
      if (i > 0) g.offset.push_back(static_cast<index_t>(i));
      g.document.push_back(across ? -1 : document[g.row[i]]);
    }
    g.position.push_back(position[g.row[i]]);
    if (across) g.key_document.push_back(document[g.row[i]]);
  }
  if (!g.row.empty()) g.offset.push_back(static_cast<index_t>(g.row.size()));
  return g;
}

/// Mean over documents and its jackknife error; `same`: every document counts once.
inline void finish_bucket(profile_bucket& b, bool same) {
  const auto count = b.document_sum.size();
  if (same)
    for (std::size_t e = 0; e < count; ++e)
      if (b.document_weight[e] > 0) {
        b.document_sum[e] /= b.document_weight[e];
        for (std::size_t at = e; at < b.term_sum.size(); at += count) b.term_sum[at] /= b.document_weight[e];
        b.document_weight[e] = 1;
      }
  const auto mean = ratio_of_sums(b.document_sum, b.document_weight);
  if (std::isnan(mean.value)) return;
  b.plasticity = mean.value;
  b.standard_error = mean.error;
  if (b.drawn == 0) b.sampling_error = 0;
}

/// Standard error of the mean of n draws with replacement from their weighted mean and mean square.
inline double draws_error(double mean, double mean_square, double n) {
  return n > 1 ? std::sqrt(std::max(0.0, mean_square - mean * mean) / (n - 1))
               : std::numeric_limits<double>::quiet_NaN();
}

/// The sums of distribution `distribution` over the groups `members` as one query bucket, whose edges and queries `b`
/// has already.
inline void fill_bucket(profile_bucket& b, const pair_sums& sums, index_t distribution,
                        const std::vector<index_t>& members, bool same) {
  const auto n = members.size();
  const bool modelled = b.queries >= 2;
  double square = 0, weight = 0;
  b.term_sum.resize(sums.term_sum.empty() ? 0 : n * pair_terms);
  for (std::size_t e = 0; e < n; ++e) {
    const auto at = sums.at(distribution, members[e]);
    b.document_sum.push_back(sums.sum[at]);
    b.document_weight.push_back(sums.weight[at]);
    b.pairs += modelled ? sums.pairs[at] : 0;
    for (std::size_t p = 0; p < b.term_sum.size() / n; ++p) b.term_sum[p * n + e] = sums.term_sum[at * pair_terms + p];
    if (sums.drawn.empty()) continue;
    b.drawn += sums.drawn[at];
    square += sums.square[at];
    weight += sums.weight[at];
  }
  if (!modelled) return;
  finish_bucket(b, same);
  if (b.drawn > 0) b.sampling_error = draws_error(b.plasticity, square / weight, static_cast<double>(b.drawn));
}

inline plasticity_profile_result profile_of(const bucket_edges& edges, const std::vector<index_t>& queries,
                                            pair_sums&& sums, const std::vector<std::int32_t>& documents,
                                            std::string_view covariance, bool same) {
  plasticity_profile_result r{covariance, same, documents, {}, {}};
  std::vector<index_t> all(sums.groups);
  std::iota(all.begin(), all.end(), index_t{0});
  for (index_t b = 0; b < edges.count(); ++b) {
    profile_bucket out;
    out.start = edges.start(b);
    out.end = edges.end(b);
    out.queries = queries[b];
    fill_bucket(out, sums, b, all, same);
    r.buckets.push_back(std::move(out));
  }
  r.heatmap.width = sums.heatmap_width;
  r.heatmap.sum = std::move(sums.heatmap_sum);
  r.heatmap.weight = std::move(sums.heatmap_weight);
  r.heatmap.terms = std::move(sums.cells);
  return r;
}

inline std::vector<index_t> queries_of(const query_model& model) {
  std::vector<index_t> n;
  for (const auto& b : model.bucket) n.push_back(b.queries);
  return n;
}

/// The same for a layer of any context, whose positions and documents may lie on a device.
template <context Context, class T, memory_space S>
keys_by_document order_keys_by_document(Context& ctx, const layer_view<T, S>& layer, bool across) {
  const auto position = ctx.host_copy(layer.k_position), document = ctx.host_copy(layer.k_document);
  return order_keys_by_document(position.view(), document.view(), across);
}

/// The context's pair sums over a pair set; a set's weight is given to the context as it is if both allow it.
template <context Context, class T, memory_space S, class Set>
std::vector<pair_sums> sums_over(Context& ctx, const layer_view<T, S>& layer, const keys_by_document& groups,
                                 const std::vector<pair_problem>& problems, const pair_request& request,
                                 const Set& set) {
  if constexpr (requires { ctx.gaussian_pairs(layer.k, groups, problems, request, set.functor()); })
    return ctx.gaussian_pairs(layer.k, groups, problems, request, set.functor());
  else
    return ctx.gaussian_pairs(layer.k, groups, problems, request);
}

/// Throws `error`, beginning with the name of the function that asks, unless each query head of the layer has a model,
/// and every bucket that has one speaks of the layer's head size.
template <class T, memory_space S>
void check_models(const char* function, const std::vector<query_model>& models, const layer_view<T, S>& layer) {
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

/// Width of a heatmap's cells where none is given, in tokens: that of the first query bucket, but no more than 256
/// cells up to the last edge, since a heatmap takes the square of their number.
inline index_t usual_cell(const bucket_edges& buckets) {
  return std::max(buckets.end(0) - buckets.start(0), (buckets.edges().back() + 255) / 256);
}

/// One problem a query head. Throws, beginning with `function`, if the models do not fit the layer.
template <class T, memory_space S>
std::vector<pair_problem> problems_of(const char* function, const std::vector<query_model>& models,
                                      const layer_view<T, S>& layer) {
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

}  // namespace detail

/// Mean pairwise plasticity of each query bucket of each head of a layer, over the keys before the bucket's start
/// (4.4.1, 4.4.5); `models` as `fit_queries` gave them for the same heads. `pairs` says which pairs count and how much:
/// all_pairs, prefix_uniform, sampled, or any function of a `key_pair` that gives a weight. f32 pair
/// arithmetic errs by about 1e-8 on a mean over many pairs, below 1e-6 on captures; a single pair may be off by 1e-5
/// (docs/numerics.md). Throws if the models do not fit the layer, or a weight is negative or not finite.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_profile_result> plasticity_profile(Context& ctx, const std::vector<query_model>& models,
                                                          const layer_view<T, S>& layer, const Pairs& pairs = {},
                                                          const profile_options& options = {}) {
  check_shapes(layer);
  const auto& set = detail::described(pairs);
  const auto groups = detail::order_keys_by_document(ctx, layer, set.across_documents);
  auto request = detail::request_of(set, options.precision);
  request.terms = options.terms;
  const auto problems = detail::problems_of("plasticity_profile", models, layer);
  for (const auto& m : models)
    if (options.heatmap && m.buckets.count() > 0)
      request.heatmap_cell = options.heatmap_cell > 0 ? options.heatmap_cell : detail::usual_cell(m.buckets);
  auto sums = detail::sums_over(ctx, layer, groups, problems, request, set);
  std::vector<plasticity_profile_result> results;
  for (std::size_t h = 0; h < models.size(); ++h) {
    results.push_back(detail::profile_of(models[h].buckets, detail::queries_of(models[h]), std::move(sums[h]),
                                         groups.document, name_of(models[h].covariance), set.documents_weigh_same));
    results.back().heatmap.cell = request.heatmap_cell;
    results.back().model = fingerprint(models[h]);
  }
  return results;
}

/// The same for one head.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
plasticity_profile_result plasticity_profile(Context& ctx, const query_model& model, const head_view<T, S>& head,
                                             const Pairs& pairs = {}, const profile_options& options = {}) {
  return std::move(plasticity_profile(ctx, std::vector<query_model>{model}, as_layer(head), pairs, options).front());
}

}  // namespace qkgeom
