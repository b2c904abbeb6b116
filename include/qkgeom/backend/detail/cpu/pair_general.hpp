// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/backend/detail/cpu/simd_vectors.hpp"
#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

/// The plasticity of a pair, then its terms in the order of `pair_term`.
using pair_values = std::array<double, heatmap_terms::values>;

/// The keys of one group that a query bucket admits, in f64, in the form that plasticity and terms of a pair need: v of
/// coordinates 2..d is |z_i - z_j|^2. (thrust_kernels::term_keys has another layout and other bits.)
class term_keys {
 public:
  /// Sets the keys; `y` (n, d) are the group's centred keys in Householder coordinates.
  void set(const score_distribution& scores, const std::vector<double>& reflector, const double* y, index_t d,
           const rank_range& range) {
    const index_t n = range.size(), rank = scores.variance.empty() ? scores.rank : d;
    width_ = round_up(rank, unroll);
    z_.assign(n * width_, 0.0);
    drift_.resize(n);
    content_.resize(n);
    auto mean = scores.mean;
    reflect_rows(mean.data(), 1, d, reflector);
    drift_mean_ = mean[0];
    const double* row = y + range.begin * d;
    for (index_t i = 0; i < n; ++i, row += d) {
      drift_[i] = row[0];
      double score = 0;
      for (index_t c = 1; c < d; ++c) score += mean[c] * row[c];
      content_[i] = score;
    }
    if (scores.variance.empty())
      set_factor(scores, reflector, y + range.begin * d, d, n);
    else
      set_diagonal(scores, y + range.begin * d, d, n);
  }

  /// Returns the values of the keys of ranks i < j in the range; `same_position`: neither is later.
  pair_values values(index_t i, index_t j, bool same_position) const {
    const double step = drift_[i] - drift_[j];
    const auto [rest, total] = squares(z_.data() + i * width_, z_.data() + j * width_, step);
    const double along = drift_variance_ * step * step;
    const double v = factor_.empty() ? along + rest : total;
    pair_values values;
    backend::set_pair_values(drift_mean_ * step, content_[i] - content_[j], along, rest, v, same_position,
                             values.data());
    return values;
  }

 private:
  static constexpr index_t unroll = 4 * lanes<double>;

  void set_diagonal(const score_distribution& scores, const double* y, index_t d, index_t n) {
    drift_variance_ = scores.variance[0];
    factor_.clear();
    std::vector<double> root;
    for (const double v : scores.variance) root.push_back(std::sqrt(v));
    for (index_t i = 0; i < n; ++i)
      for (index_t c = 1; c < d; ++c) z_[i * width_ + c] = root[c] * y[i * d + c];
  }

  /// Computes z of coordinates 2..d; `squares` adds coordinate 1 by its row of the factor.
  void set_factor(const score_distribution& scores, const std::vector<double>& reflector, const double* y, index_t d,
                  index_t n) {
    const index_t rank = scores.rank;
    rows_matrix<double> across = Eigen::Map<const rows_matrix<double>>(scores.factor.data(), d, rank).transpose();
    reflect_rows(across.data(), rank, d, reflector);
    rows_matrix<double> factor = across.transpose();
    factor_.assign(std::max<index_t>(width_, unroll), 0.0);
    drift_variance_ = 0;
    for (index_t c = 0; c < rank; ++c) {
      factor_[c] = factor(0, c);
      drift_variance_ += factor(0, c) * factor(0, c);
      factor(0, c) = 0;
    }
    if (rank == 0) return;
    const rows_matrix<double> z = Eigen::Map<const rows_matrix<double>>(y, n, d) * factor;
    for (index_t i = 0; i < n; ++i) std::copy(z.data() + i * rank, z.data() + (i + 1) * rank, z_.data() + i * width_);
  }

  /// Returns |a - b|^2, and |a - b + step factor|^2 if there is a factor.
  std::pair<double, double> squares(const double* a, const double* b, double step) const {
    vec<double> rest[4] = {}, total[4] = {};
    const bool joined = !factor_.empty();
    for (index_t c = 0; c < width_; c += unroll)
      for (int k = 0; k < 4; ++k) {
        const index_t at = c + k * lanes<double>;
        const vec<double> x = load(a + at) - load(b + at);
        rest[k] += x * x;
        if (!joined) continue;
        const vec<double> y = x + load(factor_.data() + at) * step;
        total[k] += y * y;
      }
    const auto sum = [](const vec<double>(&x)[4]) {
      const vec<double> s = (x[0] + x[1]) + (x[2] + x[3]);
      double t = 0;
      for (int l = 0; l < lanes<double>; ++l) t += s[l];
      return t;
    };
    return {sum(rest), sum(total)};
  }

  index_t width_ = 0;
  double drift_mean_ = 0, drift_variance_ = 0;
  std::vector<double> z_;                // (n, width)
  std::vector<double> drift_, content_;  // (n) coordinate 1; mean . y over coordinates 2..d
  std::vector<double> factor_;           // (width) row of the factor for coordinate 1; empty: a diagonal covariance
};

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

/// Sums pairs one by one, in f64: drawn pairs, and the terms of all pairs. Each task has its own object.
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

  /// Adds all query buckets over one group; the threads share a large group.
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

/// Adds problem `number` of the call: small groups in runs that do not depend on the threads, then large ones singly.
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
