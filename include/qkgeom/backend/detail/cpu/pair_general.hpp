// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_terms.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

/// Sums over the pairs of one query bucket and group.
struct value_sums {
  pair_values sum{};
  double weight = 0, square = 0;
  std::int64_t pairs = 0;

  void add(const pair_values& x, double w) {
    for (std::size_t v = 0; v < x.size(); ++v) sum[v] += w * x[v];
    weight += w;
    square += w * x[0] * x[0];
    ++pairs;
  }
  void add(const value_sums& x) {
    for (std::size_t v = 0; v < sum.size(); ++v) sum[v] += x.sum[v];
    weight += x.weight;
    square += x.square;
    pairs += x.pairs;
  }
};

/// Pairs one by one, in f64: drawn pairs, and the terms of all. Each task has an object of its own.
class general_pairs {
 public:
  general_pairs(thread_pool& pool, const wide_rows& k, const keys_by_document& groups, const pair_problem& problem,
                const pair_request& request, const std::vector<backend::pair_draws>& draws, pair_sums& sums)
      : pool_(pool),
        k_(k),
        groups_(groups),
        problem_(problem),
        draws_(draws),
        sums_(sums),
        sink_(sums, groups, request) {}

  /// All query buckets over one group; a large group is shared among the threads.
  void add_group(index_t group, heatmap_terms& cells) {
    const index_t n = size(group), d = k_.cols;
    if (!any_pairs(group)) return;
    y_.resize(n * d);
    centred_keys(pool_, k_, groups_, group, y_.data());
    reflect_rows(y_.data(), n, d, problem_.reflector);
    slice_cells_.assign(slices(group), std::vector<double>(cells.weight.size() * backend::cell_stride));
    for (std::size_t bucket = 0; bucket < problem_.distributions.size(); ++bucket) {
      const auto& scores = problem_.distributions[bucket];
      const auto range = admissible(groups_, group, scores);
      if (scores.empty() || range.size() < 2) continue;
      value_sums total;
      if (takes_pairs(bucket, group)) {
        keys_.set(scores, problem_.reflector, y_.data(), d, range);
        std::vector<value_sums> sums(slice_cells_.size());
        pool_.for_each(slices(group), [&](index_t s, int) { sums[s] = slice(bucket, group, range, s); });
        for (const auto& x : sums) total.add(x);
      }
      write(bucket, group, range, total);
    }
    for (std::size_t s = 1; s < slice_cells_.size(); ++s)
      for (std::size_t c = 0; c < slice_cells_[0].size(); ++c) slice_cells_[0][c] += slice_cells_[s][c];
    backend::fold(slice_cells_[0], cells);
  }

  static bool is_large(const keys_by_document& groups, index_t group) {
    return groups.offset[group + 1] - groups.offset[group] > 1024;
  }

 private:
  index_t size(index_t g) const { return groups_.offset[g + 1] - groups_.offset[g]; }
  index_t slices(index_t g) const { return is_large(groups_, g) ? 32 : 1; }

  bool takes_pairs(std::size_t bucket, index_t group) const {
    const auto& d = draws_[bucket];
    return d.all || d.offset[group] < d.offset[group + 1];
  }
  bool any_pairs(index_t group) const {
    for (const auto& scores : problem_.distributions)
      if (!scores.empty() && admissible(groups_, group, scores).size() >= 2) return true;
    return false;
  }

  value_sums slice(std::size_t bucket, index_t group, const rank_range& range, index_t number) {
    const auto& scores = problem_.distributions[bucket];
    const auto& draws = draws_[bucket];
    const auto* t = groups_.position.data() + groups_.offset[group] + range.begin;
    auto& cells = slice_cells_[number];
    const index_t step = slices(group);
    value_sums sums;
    const auto add = [&](index_t i, index_t j) {
      const index_t a = range.begin + i, b = range.begin + j;
      const double w = draws.weight * sink_.weight(group, range, scores, a, b);
      if (w == 0) return;
      const auto x = keys_.values(i, j, t[i] == t[j]);
      sums.add(x, w);
      const index_t cell = sink_.cells.cell_of(sink_.place(group, a, b), scores.tau);
      if (cell < 0) return;
      double* const to = cells.data() + cell * backend::cell_stride;
      to[0] += w;
      for (std::size_t v = 0; v < x.size(); ++v) to[1 + v] += w * x[v];
    };
    if (draws.all) {
      for (index_t j = 1 + number; j < range.size(); j += step)
        for (index_t i = 0; i < j; ++i) add(i, j);
    } else {
      const auto last = draws.offset[group + 1];
      for (auto n = draws.offset[group] + number; n < last; n += step) add(draws.pairs[n].i, draws.pairs[n].j);
    }
    return sums;
  }

  void write(std::size_t bucket, index_t group, const rank_range& range, const value_sums& x) {
    const auto at = sums_.at(static_cast<index_t>(bucket), group);
    if (!sums_.drawn.empty()) {
      sums_.sum[at] = x.sum[0];
      sums_.weight[at] = x.weight;
      sums_.pairs[at] = range.pairs();
      sums_.drawn[at] = draws_[bucket].all ? 0 : x.pairs;
      sums_.square[at] = x.square;
    }
    if (!sums_.term_sum.empty())
      std::copy(x.sum.begin() + 1, x.sum.end(), sums_.term_sum.begin() + static_cast<index_t>(at) * pair_terms);
  }

  thread_pool& pool_;
  wide_rows k_;
  const keys_by_document& groups_;
  const pair_problem& problem_;
  const std::vector<backend::pair_draws>& draws_;
  pair_sums& sums_;
  pair_sink sink_;
  term_keys keys_;
  std::vector<double> y_;
  std::vector<std::vector<double>> slice_cells_;  ///< (slices) by cell
};

/// Problem `number` of the call. Small groups go in runs that do not depend on the threads, then large ones one by one.
inline void add_general(thread_pool& pool, const wide_rows& k, const keys_by_document& groups,
                        const pair_problem& problem, const pair_request& request, index_t number, pair_sums& sums) {
  const auto entries = sums.sum.size();
  if (request.terms) sums.term_sum.assign(entries * pair_terms, 0.0);
  if (request.sample.pairs > 0) {
    sums.drawn.assign(entries, 0);
    sums.square.assign(entries, 0.0);
  }
  std::vector<backend::pair_draws> draws(problem.distributions.size());
  pool.for_each(static_cast<index_t>(draws.size()), [&](index_t bucket, int) {
    draws[bucket] = backend::draw_pairs(groups, problem.distributions[bucket], request.sample, number, bucket);
  });
  const auto n = groups.groups();
  const index_t runs = std::min<index_t>(n, 32);
  std::vector<heatmap_terms> cells(runs + 1, blank_cells(sums.heatmap_sum.size()));
  const auto task = [&] { return general_pairs(pool, k, groups, problem, request, draws, sums); };
  pool.for_each(runs, [&](index_t r, int) {
    auto mine = task();
    for (index_t g = n * r / runs; g < n * (r + 1) / runs; ++g)
      if (!general_pairs::is_large(groups, g)) mine.add_group(g, cells[r]);
  });
  auto alone = task();
  for (index_t g = 0; g < n; ++g)
    if (general_pairs::is_large(groups, g)) alone.add_group(g, cells.back());
  for (std::size_t r = 1; r < cells.size(); ++r) backend::merge(cells[0], cells[r]);
  if (request.sample.pairs > 0 && !sums.heatmap_sum.empty()) {
    sums.heatmap_weight = cells[0].weight;
    for (std::size_t c = 0; c < sums.heatmap_sum.size(); ++c)
      sums.heatmap_sum[c] = cells[0].sum[c * heatmap_terms::values];
  }
  if (request.terms && !sums.heatmap_sum.empty()) sums.cells = std::move(cells[0]);
}

}  // namespace qkgeom::cpu
