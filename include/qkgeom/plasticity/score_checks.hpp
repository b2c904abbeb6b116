// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"

namespace qkgeom {

struct score_check_options {
  index_t pairs = 64;                                ///< pairs of keys drawn per query bucket; all if there are no more
  index_t min_queries = 8;                           ///< buckets with fewer queries are omitted
  double alpha = 0.01;                               ///< level of the Kolmogorov-Smirnov tests
  query_position position = query_position::middle;  ///< tau, for the window of windowed layers
  std::uint64_t seed = 0;
};

/// Normality of the score differences q . (k_i - k_j) of single pairs of keys over the observed queries of a bucket,
/// which the pair formula (4.11) assumes: medians over pairs.
struct score_checks_result {
  normality_medians all;                  ///< over the pairs of all query buckets
  std::vector<normality_medians> bucket;  ///< (query buckets)
};

/// Checks the score differences of each query head of a layer on the query buckets that `buckets` defines over [0,
/// context_length) tokens (docs/mathematics.md, Query model). All heads share the pairs, of one document, before the
/// bucket and inside the window. Needs rows on the host. Throws if shapes do not fit.
template <context Context, class T, bucketing Buckets>
std::vector<score_checks_result> score_checks(Context& ctx, const layer_view<T, memory_space::host>& layer,
                                              const Buckets& buckets, index_t context_length,
                                              const score_check_options& options = {});

/// Does the same for one head.
template <context Context, class T, bucketing Buckets>
score_checks_result score_checks(Context& ctx, const head_view<T, memory_space::host>& head, const Buckets& buckets,
                                 index_t context_length, const score_check_options& options = {}) {
  return std::move(score_checks(ctx, as_layer(head), buckets, context_length, options).front());
}

namespace detail {

/// Draws `count` pairs of admissible keys of one group uniformly, as indices of keys; returns all if there are no more.
inline std::vector<std::pair<index_t, index_t>> drawn_pairs(const keys_by_document& groups,
                                                            const score_distribution& distribution, index_t count,
                                                            const random_stream& stream) {
  const auto ranges = ranges_of(groups, distribution);
  std::vector<std::int64_t> before{0};  // pairs of the ranges before each range
  for (const auto& r : ranges) before.push_back(before.back() + rank_range{0, r.count}.pairs());
  const std::int64_t total = before.back();
  std::vector<std::pair<index_t, index_t>> pairs;
  for (index_t draw = 0; draw < std::min<index_t>(count, total); ++draw) {
    const std::int64_t which = total <= count ? draw : static_cast<std::int64_t>(stream.below(draw, total));
    const auto r = std::upper_bound(before.begin(), before.end(), which) - before.begin() - 1;
    const auto pair = pair_of_number(which - before[r]);
    pairs.emplace_back(ranges[r].first + pair.i, ranges[r].first + pair.j);
  }
  return pairs;
}

}  // namespace detail

template <context Context, class T, bucketing Buckets>
std::vector<score_checks_result> score_checks(Context& ctx, const layer_view<T, memory_space::host>& layer,
                                              const Buckets& buckets, index_t context_length,
                                              const score_check_options& options) {
  check_shapes(layer);
  const bucket_edges edges = buckets.edges(context_length);
  const auto groups = order_keys_by_document(layer.k_position, layer.k_document, false);
  std::vector<std::vector<index_t>> rows(edges.count());
  for (index_t i = 0; i < layer.q_position.size; ++i)
    if (const index_t b = edges(layer.q_position[i]); b >= 0) rows[b].push_back(i);
  std::vector<std::vector<std::pair<index_t, index_t>>> pairs(rows.size());
  for (index_t b = 0; b < edges.count(); ++b) {
    const auto& queries = rows[b];
    if (static_cast<index_t>(queries.size()) < std::max<index_t>(1, options.min_queries)) continue;
    double tau = edges.middle(b);
    if (options.position == query_position::mean) {
      tau = 0;
      for (const index_t i : queries) tau += layer.q_position[i] / static_cast<double>(queries.size());
    }
    pairs[b] = detail::drawn_pairs(groups, admitting(edges.start(b), tau, layer.window), options.pairs,
                                   {options.seed, static_cast<std::uint32_t>(b), 0, draw::score_pair});
  }
  const index_t heads = layer.q.heads, d = layer.q.dim, n = edges.count();
  std::vector<std::vector<normality>> checks(heads * n);
  ctx.for_each(heads * n, [&](index_t item) {
    const index_t h = item / n;
    const index_t b = item % n;
    const auto q = layer.q.head(h), k = layer.k.head(layer.key_of_query[h]);
    std::vector<double> delta(d), score(rows[b].size());
    for (const auto& [i, j] : pairs[b]) {
      const T *const ki = k.row(groups.row[i]), *const kj = k.row(groups.row[j]);
      for (index_t c = 0; c < d; ++c) delta[c] = static_cast<double>(ki[c]) - static_cast<double>(kj[c]);
      for (std::size_t r = 0; r < score.size(); ++r) {
        const T* const row = q.row(rows[b][r]);
        score[r] = 0;
        for (index_t c = 0; c < d; ++c) score[r] += static_cast<double>(row[c]) * delta[c];
      }
      checks[item].push_back(check_normality(score));
    }
  });
  std::vector<score_checks_result> results(heads);
  for (std::size_t h = 0; h < results.size(); ++h) {
    std::vector<normality> all;
    for (std::size_t b = 0; b < rows.size(); ++b) {
      const auto& mine = checks[h * rows.size() + b];
      results[h].bucket.push_back(medians(mine, options.alpha));
      all.insert(all.end(), mine.begin(), mine.end());
    }
    results[h].all = medians(all, options.alpha);
  }
  return results;
}

}  // namespace qkgeom
