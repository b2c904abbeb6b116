// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

struct empirical_options {
  index_t most_queries = 4096;  ///< observed queries used a bucket; more are thinned by a counter-based draw
  std::uint64_t seed = 0;
  query_position position = query_position::middle;  ///< for the window of windowed layers
  bool across_examples = false;
};

namespace detail {

/// At most `most` of the rows, ascending: those with the smallest random numbers.
inline void thin(std::vector<index_t>& rows, index_t most, const random_stream& stream) {
  if (static_cast<index_t>(rows.size()) <= most) return;
  std::vector<std::pair<double, index_t>> drawn;
  for (const index_t r : rows) drawn.emplace_back(stream.uniform(static_cast<std::uint64_t>(r)), r);
  std::nth_element(drawn.begin(), drawn.begin() + most, drawn.end());
  rows.clear();
  for (index_t i = 0; i < most; ++i) rows.push_back(drawn[static_cast<std::size_t>(i)].second);
  std::sort(rows.begin(), rows.end());
}

}  // namespace detail

/// Plasticity of the observed queries themselves, without a model (4.7, 4.8): p is the share of the bucket's n queries
/// that score key i above key j, a tie counts one half, and the mean is of 4p(1 - p), the plug-in form. It is low by
/// the factor 1 - 1/n: `unbiased` undoes that.
template <class Context, class T, memory_space S, bucketing Buckets>
std::vector<plasticity_profile_result> empirical_profile(Context& ctx, const layer_view<T, S>& layer,
                                                         const Buckets& buckets, index_t context_length,
                                                         const empirical_options& options = {}) {
  check_shapes(layer);
  require(options.most_queries >= 2, "most_queries must be at least 2, not ", options.most_queries);
  const bucket_edges edges = buckets.edges(context_length);
  const auto groups = detail::group_keys(layer.k_position, layer.k_example, options.across_examples);
  std::vector<std::vector<index_t>> rows(static_cast<std::size_t>(edges.count()));
  for (index_t i = 0; i < layer.q_position.size; ++i)
    if (const index_t b = edges(layer.q_position[i]); b >= 0) rows[static_cast<std::size_t>(b)].push_back(i);
  std::vector<score_law> laws;
  std::vector<index_t> queries;
  for (index_t b = 0; b < edges.count(); ++b) {
    auto& mine = rows[static_cast<std::size_t>(b)];
    queries.push_back(static_cast<index_t>(mine.size()));
    detail::thin(mine, options.most_queries, {options.seed, 0, static_cast<std::uint32_t>(b), draw::query_subset});
    score_law law;
    law.tau = edges.middle(b);
    if (options.position == query_position::mean && !mine.empty()) {
      law.tau = 0;
      for (const index_t i : mine) law.tau += layer.q_position[i] / static_cast<double>(mine.size());
    }
    law.before = edges.start(b);
    if (layer.window) law.after = law.tau - static_cast<double>(*layer.window);
    laws.push_back(law);
  }
  std::vector<empirical_problem> problems;
  for (index_t h = 0; h < layer.q.heads; ++h)
    problems.push_back({h, layer.key_of_query[static_cast<std::size_t>(h)], rows, laws});
  auto sums = ctx.empirical_pairs(layer.q, layer.k, groups, problems);
  std::vector<plasticity_profile_result> results;
  for (auto& s : sums)
    results.push_back(detail::profile_of(edges, queries, std::move(s), groups.example, "empirical", false));
  return results;
}

/// The same for one head.
template <class Context, class T, memory_space S, bucketing Buckets>
plasticity_profile_result empirical_profile(Context& ctx, const head_view<T, S>& head, const Buckets& buckets,
                                            index_t context_length, const empirical_options& options = {}) {
  return std::move(empirical_profile(ctx, as_layer(head), buckets, context_length, options).front());
}

/// The plug-in empirical profile times n / (n - 1), n the queries used of each bucket.
inline plasticity_profile_result unbiased(plasticity_profile_result profile, index_t most_queries = 4096) {
  for (auto& b : profile.buckets) {
    const auto n = static_cast<double>(std::min(b.queries, most_queries));
    if (n < 2) continue;
    b.plasticity *= n / (n - 1);
    b.standard_error *= n / (n - 1);
    for (double& s : b.example_sum) s *= n / (n - 1);
  }
  return profile;
}

}  // namespace qkgeom
