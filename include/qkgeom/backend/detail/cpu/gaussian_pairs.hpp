// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_general.hpp"
#include "qkgeom/backend/detail/cpu/pair_groups.hpp"
#include "qkgeom/backend/detail/cpu/pair_tiles.hpp"

namespace qkgeom::cpu {

/// Returns the groups of each task: small ones together, a larger one alone.
inline std::vector<group_run> group_runs(const keys_by_document& groups) {
  constexpr index_t run_rows = 512;
  std::vector<group_run> runs;
  for (index_t g = 0; g < groups.groups(); ++g) {
    const index_t n = groups.offset[g + 1] - groups.offset[g];
    if (n < 2) continue;
    const bool joins = !runs.empty() && runs.back().end == g && n <= small_group && runs.back().rows + n <= run_rows &&
                       runs.back().small;
    if (joins) {
      runs.back().end = g + 1;
      runs.back().rows += n;
    } else {
      runs.push_back({g, g + 1, n, n <= small_group});
    }
  }
  return runs;
}

/// A thread's memory, kept between tasks.
template <class F>
struct pair_scratch {
  std::vector<F> y, reflected;
  scaled_keys<F> keys;
  small_groups<F> small;
  aligned_vector<double> wide;
};

/// Computes scaled keys and scores mean . key for the range of a group that a query bucket admits; y (n, d) are the
/// group's centred keys, reflected if the covariance is diagonal.
template <class F>
void scale_keys(thread_pool& pool, const score_distribution& scores, const std::vector<double>& reflector, const F* y,
                index_t d, const rank_range& range, scaled_keys<F>& keys) {
  const bool diagonal = !scores.variance.empty();
  const index_t rank = diagonal ? d : scores.rank;
  auto mean = scores.mean;
  if (diagonal) reflect_rows(mean.data(), 1, d, reflector);
  keys.resize(range.size(), rank);
  rows_matrix<F> factor(diagonal ? 0 : d, diagonal ? 0 : rank);
  for (index_t i = 0; i < factor.size(); ++i) factor.data()[i] = static_cast<F>(scores.factor[i]);
  std::vector<F> column_scale(rank, F{1}), direction(mean.begin(), mean.end());
  for (std::size_t c = 0; diagonal && c < column_scale.size(); ++c)
    column_scale[c] = static_cast<F>(std::sqrt(scores.variance[c]));
  constexpr index_t block = 8 * scaled_keys<F>::panel;
  using const_rows = Eigen::Map<const rows_matrix<F>>;
  const auto rows_from = [&](index_t begin) { return y + (range.begin + begin) * d; };
  // Returns the rows that `column_scale` scales: the keys, or their products with the factor.
  const auto unscaled = [&](index_t begin, index_t count, rows_matrix<F>& products) {
    if (diagonal) return rows_from(begin);
    products.noalias() = const_rows(rows_from(begin), count, d) * factor;
    return static_cast<const F*>(products.data());
  };
  // A power of two from a fixed sample does not change rounding and does not depend on how the work is shared.
  const index_t sampled = std::min<index_t>(256, range.size());
  double squares = 0;
  {
    rows_matrix<F> products;
    const F* rows = unscaled(0, sampled, products);
    for (index_t i = 0; i < sampled; ++i, rows += rank)
      for (index_t c = 0; c < rank; ++c) {
        const auto x = static_cast<double>(rows[c] * column_scale[c]);
        squares += x * x;
      }
  }
  const auto scale = static_cast<F>(backend::unit_scale(sampled > 0 ? squares / static_cast<double>(sampled) : 0.0));
  for (F& s : column_scale) s *= scale;
  for (F& x : direction) x *= scale;
  pool.for_each((range.size() + block - 1) / block, [&](index_t b, int) {
    const index_t begin = b * block, count = std::min(block, range.size() - begin);
    rows_matrix<F> products;
    keys.pack(begin, count, unscaled(begin, count, products), column_scale.data());
    Eigen::Map<Eigen::Matrix<F, Eigen::Dynamic, 1>>(keys.score.data() + begin, count).noalias() =
        const_rows(rows_from(begin), count, d) *
        Eigen::Map<const Eigen::Matrix<F, Eigen::Dynamic, 1>>(direction.data(), d);
  });
}

/// Sums one group under one query bucket by pair tiles, in shares whose sums are added in a fixed order.
template <class F>
void add_group_by_tiles(thread_pool& pool, const pair_problem& problem, index_t bucket, index_t group, const F* y,
                        index_t d, scaled_keys<F>& keys, pair_sink& sink) {
  const auto& scores = problem.distributions[bucket];
  const auto range = admissible(*sink.groups, group, scores);
  if (range.size() < 2) return;
  scale_keys(pool, scores, problem.reflector, y, d, range, keys);
  const index_t shares = std::clamp<index_t>(keys.panels() / 2, 1, 64);
  std::vector<weighted_sums> sums(shares);
  std::vector<pair_sink> sinks(sink.simple() ? 1 : shares, pair_sink(*sink.sums, *sink.groups, *sink.request));
  pool.for_each(shares, [&](index_t p, int) {
    auto& mine = sinks[sink.simple() ? 0 : p];
    sum_tiles(keys, shares - 1 - p, shares, scores, group, range, mine, sums[p]);
  });
  weighted_sums total;
  for (const auto& x : sums) {
    total.sum += x.sum;
    total.weight += x.weight;
    total.pairs += x.pairs;
  }
  sink.add_sums(bucket, group, range, total);
  for (const auto& s : sinks)
    for (std::size_t c = 0; c < s.heat_sum.size(); ++c) {
      sink.heat_sum[c] += s.heat_sum[c];
      sink.heat_weight[c] += s.heat_weight[c];
    }
}

template <class F>
void add_small_run(const wide_rows& k, const keys_by_document& groups, const pair_problem& problem,
                   const small_problem<F>& tables, const group_run& run, pair_scratch<F>& scratch, pair_sink& sink) {
  F* const keys = scratch.small.keys(run.rows, k.cols);
  for (index_t g = run.begin; g < run.end; ++g)
    centred_small_keys(k, groups, g, keys + (groups.offset[g] - groups.offset[run.begin]) * k.cols, scratch.wide);
  reflect_rows(keys, run.rows, k.cols, problem.reflector);
  scratch.small.add(problem, tables, run, sink);
}

/// Sums one large group under every query bucket.
template <class F>
void add_large_group(thread_pool& pool, const wide_rows& k, const keys_by_document& groups, const pair_problem& problem,
                     index_t group, pair_scratch<F>& scratch, pair_sink& sink) {
  const index_t d = k.cols, rows = groups.offset[group + 1] - groups.offset[group];
  bool diagonal = false, factors = false;
  for (const auto& scores : problem.distributions)
    if (!scores.empty()) (scores.variance.empty() ? factors : diagonal) = true;
  scratch.y.resize(rows * d);
  centred_keys(pool, k, groups, group, scratch.y.data());
  const F* reflected = scratch.y.data();
  if (diagonal && !problem.reflector.empty()) {
    if (factors) scratch.reflected = scratch.y;
    F* const to = factors ? scratch.reflected.data() : scratch.y.data();
    constexpr index_t block = 256;
    pool.for_each((rows + block - 1) / block, [&](index_t b, int) {
      reflect_rows(to + b * block * d, std::min(block, rows - b * block), d, problem.reflector);
    });
    reflected = to;
  }
  for (std::size_t bucket = 0; bucket < problem.distributions.size(); ++bucket) {
    const auto& scores = problem.distributions[bucket];
    if (scores.empty()) continue;
    add_group_by_tiles(pool, problem, static_cast<index_t>(bucket), group,
                       scores.variance.empty() ? scratch.y.data() : reflected, d, scratch.keys, sink);
  }
}

/// Returns for each problem the first whose heatmap counts the same pairs in the same cells, because its query buckets
/// admit the same keys at the same distances. `results` are the problems' empty sums.
inline std::vector<std::size_t> same_counts(const std::vector<pair_problem>& problems,
                                            const std::vector<pair_sums>& results) {
  const auto same_pairs = [](const score_distribution& a, const score_distribution& b) {
    return a.empty() == b.empty() && a.tau == b.tau && a.before == b.before && a.after == b.after;
  };
  const auto same = [&](std::size_t p, std::size_t q) {
    const auto &a = problems[p].distributions, &b = problems[q].distributions;
    return results[p].heatmap_width == results[q].heatmap_width &&
           std::equal(a.begin(), a.end(), b.begin(), b.end(), same_pairs);
  };
  std::vector<std::size_t> first(problems.size());
  for (std::size_t p = 0; p < problems.size(); ++p)
    while (!same(p, first[p])) ++first[p];
  return first;
}

/// Sums over all pairs, without terms.
template <class F>
std::vector<pair_sums> all_gaussian_pairs(thread_pool& pool, std::vector<pair_scratch<F>>& scratch,
                                          const wide_tensor& k, const keys_by_document& groups,
                                          const std::vector<pair_problem>& problems, const pair_request& request) {
  constexpr index_t shared_rows = 1024;  // threads share larger groups; others are tasks
  auto results = backend::empty_sums(groups, problems, request);
  auto runs = group_runs(groups);
  const auto count = static_cast<index_t>(runs.size());
  const bool any_small = std::any_of(runs.begin(), runs.end(), [](const group_run& r) { return r.small; });
  std::vector<small_problem<F>> tables(any_small ? problems.size() : 0);
  pool.for_each(static_cast<index_t>(tables.size()),
                [&](index_t p, int) { tables[p] = small_problem<F>(problems[p], k.first.cols); });
  const bool factors =
      std::any_of(tables.begin(), tables.end(), [](const small_problem<F>& t) { return t.any_factor; });
  const bool heat = request.heatmap_cell > 0 && !request.weight && !problems.empty();
  pool.for_each(count, [&](index_t r, int) {
    if (!runs[r].small) return;
    if (factors) runs[r].order_by_position(groups);
    if (heat) runs[r].place_pairs(groups, backend::heatmap_cells::of(request.heatmap_cell, results[0].heatmap_width));
  });
  const auto counted_by = same_counts(problems, results);
  std::vector<std::unique_ptr<pair_sink>> sinks(problems.size() * runs.size());
  scratch.resize(pool.size());
  const auto work = [&](index_t task, int thread) {
    const index_t p = task / count;
    const auto& run = runs[task % count];
    const auto keys = k.head(problems[p].key_head);
    auto& sink = sinks[task];
    sink = std::make_unique<pair_sink>(results[p], groups, request);
    sink->counts = request.weight || counted_by[p] == static_cast<std::size_t>(p);
    if (run.small)
      add_small_run(keys, groups, problems[p], tables[p], run, scratch[thread], *sink);
    else
      add_large_group(pool, keys, groups, problems[p], run.begin, scratch[thread], *sink);
  };
  std::vector<index_t> alone, together;
  for (index_t t = 0; t < count * static_cast<index_t>(problems.size()); ++t)
    (runs[t % count].rows > shared_rows ? alone : together).push_back(t);
  pool.for_each(static_cast<index_t>(together.size()), [&](index_t i, int thread) { work(together[i], thread); });
  for (const index_t t : alone) work(t, 0);
  for (std::size_t t = 0; t < sinks.size(); ++t) {
    auto& r = results[t / runs.size()];
    for (std::size_t c = 0; c < r.heatmap_sum.size(); ++c) {
      r.heatmap_sum[c] += sinks[t]->heat_sum[c];
      r.heatmap_weight[c] += sinks[t]->heat_weight[c];
    }
  }
  for (std::size_t p = 0; p < problems.size() && !request.weight; ++p)
    results[p].heatmap_weight = results[counted_by[p]].heatmap_weight;
  return results;
}

template <class F>
std::vector<pair_sums> gaussian_pairs(thread_pool& pool, std::vector<pair_scratch<F>>& scratch, const wide_tensor& k,
                                      const keys_by_document& groups, const std::vector<pair_problem>& problems,
                                      const pair_request& request) {
  const bool sampled = request.sample.pairs > 0;
  require(!sampled || !request.weight, "gaussian_pairs: drawn pairs count 1 each, but a weight was given too");
  auto results = sampled ? backend::empty_sums(groups, problems, request)
                         : all_gaussian_pairs(pool, scratch, k, groups, problems, request);
  for (std::size_t p = 0; p < problems.size() && (sampled || request.terms); ++p)
    add_general(pool, k.head(problems[p].key_head), groups, problems[p], request, static_cast<index_t>(p), results[p]);
  return results;
}

}  // namespace qkgeom::cpu
