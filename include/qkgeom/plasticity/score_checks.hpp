// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "qkgeom/context/admissible.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

struct score_check_options {
  index_t pairs = 64;          ///< at most so many pairs of keys a query bucket, drawn without preference
  index_t fewest_queries = 8;  ///< a bucket with fewer queries says nothing about a distribution and is left out
  double alpha = 0.01;         ///< level of the Kolmogorov-Smirnov tests
  query_position position = query_position::middle;  ///< for the window of windowed layers
  std::uint64_t seed = 0;
};

/// How normal the score differences q . (k_i - k_j) of single pairs of keys are over the observed queries of a bucket,
/// which the pair formula (4.11) assumes: medians over the pairs drawn.
struct score_checks_result {
  normality_medians all;                  ///< over the pairs of all query buckets
  std::vector<normality_medians> bucket;  ///< (query buckets)
};

namespace detail {

/// Up to `most` pairs of admissible keys of one group (indices into `groups`), each pair as likely as any other; all
/// pairs if there are no more.
inline std::vector<std::pair<index_t, index_t>> drawn_pairs(const keys_by_document& groups,
                                                            const score_distribution& distribution, index_t most,
                                                            const random_stream& stream) {
  const auto ranges = ranges_of(groups, distribution);
  std::vector<std::int64_t> before{0};  // pairs of the ranges before each
  for (const auto& r : ranges) before.push_back(before.back() + rank_range{0, r.count}.pairs());
  const std::int64_t total = before.back();
  std::vector<std::pair<index_t, index_t>> pairs;
  for (index_t draw = 0; draw < std::min<index_t>(most, total); ++draw) {
    const auto which = total <= most ? draw
                                     : static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(draw),
                                                                              static_cast<std::uint64_t>(total)));
    const auto r = static_cast<std::size_t>(std::upper_bound(before.begin(), before.end(), which) - before.begin()) - 1;
    const auto pair = pair_of_number(which - before[r]);
    pairs.emplace_back(ranges[r].first + pair.i, ranges[r].first + pair.j);
  }
  return pairs;
}

}  // namespace detail

/// Checks the score differences of each query head of a layer, on the query buckets `buckets` lays over
/// [0, context_length) tokens. Pairs are of one document, before the bucket and inside the window; the heads of a layer
/// share them. Needs rows on the host.
template <context Context, class T, bucketing Buckets>
std::vector<score_checks_result> score_checks(Context& ctx, const layer_view<T, memory_space::host>& layer,
                                              const Buckets& buckets, index_t context_length,
                                              const score_check_options& options = {}) {
  check_shapes(layer);
  const bucket_edges edges = buckets.edges(context_length);
  const auto groups = detail::order_keys_by_document(layer.k_position, layer.k_document, false);
  std::vector<std::vector<index_t>> rows(edges.count());
  for (index_t i = 0; i < layer.q_position.size; ++i)
    if (const index_t b = edges(layer.q_position[i]); b >= 0) rows[b].push_back(i);
  std::vector<std::vector<std::pair<index_t, index_t>>> pairs(rows.size());
  for (index_t b = 0; b < edges.count(); ++b) {
    const auto& mine = rows[b];
    if (static_cast<index_t>(mine.size()) < std::max<index_t>(1, options.fewest_queries)) continue;
    double tau = edges.middle(b);
    if (options.position == query_position::mean) {
      tau = 0;
      for (const index_t i : mine) tau += layer.q_position[i] / static_cast<double>(mine.size());
    }
    pairs[b] = detail::drawn_pairs(groups, admitting(edges.start(b), tau, layer.window), options.pairs,
                                   {options.seed, static_cast<std::uint32_t>(b), 0, draw::score_pair});
  }
  const index_t heads = layer.q.heads, d = layer.q.dim, n = edges.count();
  std::vector<std::vector<normality>> checks(heads * n);
  ctx.for_each(heads * n, [&](index_t item) {
    const index_t h = item / n;
    const auto b = static_cast<std::size_t>(item % n);
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

/// The same for one head.
template <context Context, class T, bucketing Buckets>
score_checks_result score_checks(Context& ctx, const head_view<T, memory_space::host>& head, const Buckets& buckets,
                                 index_t context_length, const score_check_options& options = {}) {
  return std::move(score_checks(ctx, as_layer(head), buckets, context_length, options).front());
}

}  // namespace qkgeom
