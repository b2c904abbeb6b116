// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_blocks.hpp"
#include "qkgeom/backend/detail/cpu/pair_factors.hpp"

namespace qkgeom::cpu {

/// One problem as small groups use it, for any keys: its distributions as F, in reflected coordinates.
template <class F>
struct small_problem {
  struct query_bucket {
    index_t number = 0;          ///< index among the problem's distributions
    aligned_vector<F> variance;  ///< (padded d); empty: `factor` holds the covariance
    factor_columns<F> factor;
  };
  std::vector<query_bucket> buckets;  ///< the buckets with a distribution
  index_t width = 0;                  ///< number of buckets, padded
  aligned_vector<F> mean;             ///< (d, width), lanes are buckets
  bool any_factor = false;

  small_problem() = default;
  small_problem(const pair_problem& problem, index_t d) {
    for (std::size_t l = 0; l < problem.distributions.size(); ++l)
      if (!problem.distributions[l].empty()) buckets.push_back({static_cast<index_t>(l), {}, {}});
    width = padded<F>(static_cast<index_t>(buckets.size()));
    mean.resize(d * width);
    for (index_t b = 0; b < static_cast<index_t>(buckets.size()); ++b) {
      auto& bucket = buckets[b];
      const auto& scores = problem.distributions[bucket.number];
      auto reflected = scores.mean;
      reflect_rows(reflected.data(), 1, d, problem.reflector);
      for (index_t c = 0; c < d; ++c) mean[c * width + b] = static_cast<F>(reflected[c]);
      bucket.variance.resize(scores.variance.empty() ? 0 : padded<F>(d));
      for (std::size_t c = 0; c < scores.variance.size(); ++c) bucket.variance[c] = static_cast<F>(scores.variance[c]);
      if (!scores.variance.empty()) continue;
      any_factor = true;
      bucket.factor = factor_columns<F>(scores, problem.reflector, d);
    }
  }
};

/// Sums small groups, one run of groups after another; the memory belongs to one thread.
template <class F>
class small_groups {
 public:
  /// Returns room for the centred, reflected keys (rows, d) of the next run, group after group.
  F* keys(index_t rows, index_t d) {
    d_ = d;
    rows_ = rows;
    y_.resize(round_up(rows, block_rows) * d);
    return y_.data();
  }

  /// Adds the sums of a run, whose keys are in keys().
  void add(const pair_problem& problem, const small_problem<F>& tables, const group_run& run, pair_sink& sink) {
    set_scores(tables);
    for (index_t g = run.begin; g < run.end; ++g) add_diagonal(problem, tables, run, g, sink);
    if (!tables.any_factor) return;
    product_.set_keys(y_.data(), rows_, d_, run.place);
    for (std::size_t b = 0; b < tables.buckets.size(); ++b)
      if (tables.buckets[b].variance.empty()) add_factor(problem, tables, b, run, sink);
  }

 private:
  static index_t row_of(const group_run& run, index_t group, const pair_sink& sink) {
    return sink.groups->offset[group] - sink.groups->offset[run.begin];
  }

  /// Computes the scores of all keys under each bucket: (buckets, stride).
  void set_scores(const small_problem<F>& tables) {
    stride_ = padded<F>(rows_) + lanes<F>;
    score_.resize(static_cast<index_t>(tables.buckets.size()) * stride_);
    lanes_.resize(block_rows * tables.width);
    for (index_t i = 0; i < rows_; i += block_rows) {
      rows_times_lanes(y_.data() + i * d_, d_, d_, tables.mean.data(), tables.width, lanes_.data());
      for (std::size_t b = 0; b < tables.buckets.size(); ++b)
        for (index_t r = 0; r < block_rows && i + r < rows_; ++r)
          score_[static_cast<index_t>(b) * stride_ + i + r] = lanes_[r * tables.width + static_cast<index_t>(b)];
    }
  }
  const F* scores_of(std::size_t bucket, index_t row) const {
    return score_.data() + static_cast<index_t>(bucket) * stride_ + row;
  }

  /// Adds the buckets with a diagonal covariance. Buckets that admit the group's keys from the same rank on go
  /// together, since they share the squared differences.
  void add_diagonal(const pair_problem& problem, const small_problem<F>& tables, const group_run& run, index_t group,
                    pair_sink& sink) {
    const index_t row = row_of(run, group, sink);
    waiting_.clear();
    for (std::size_t b = 0; b < tables.buckets.size(); ++b) {
      if (tables.buckets[b].variance.empty()) continue;
      const auto range = admissible(*sink.groups, group, problem.distributions[tables.buckets[b].number]);
      if (range.size() >= 2) waiting_.push_back({b, range});
    }
    const auto later = [](const admitted& a, const admitted& b) {
      return std::pair{a.range.begin, a.range.end} < std::pair{b.range.begin, b.range.end};
    };
    if (!std::is_sorted(waiting_.begin(), waiting_.end(), later)) std::sort(waiting_.begin(), waiting_.end(), later);
    for (std::size_t first = 0, next = 0; first < waiting_.size(); first = next) {
      while (next < waiting_.size() && waiting_[next].range.begin == waiting_[first].range.begin) ++next;
      const index_t begin = waiting_[first].range.begin, end = waiting_[next - 1].range.end;
      set_variances(tables, first, next, y_.data() + (row + begin) * d_, end - begin);
      finish_.set_keys(run, group, begin, end);
      for (std::size_t w = first; w < next; ++w) {
        const auto& [bucket, range] = waiting_[w];
        const index_t number = tables.buckets[bucket].number;
        finish_.add(number, group, range, problem.distributions[number],
                    v_.data() + static_cast<index_t>(w - first) * room_, scores_of(bucket, row + begin), sink);
      }
    }
  }

  /// Sets v of the pairs of the n keys y under the waiting buckets [first, next), by end of range: (buckets, room).
  void set_variances(const small_problem<F>& tables, std::size_t first, std::size_t next, const F* y, index_t n) {
    const index_t width = padded<F>(d_);
    room_ = padded<F>(pairs_of(n));
    v_.resize(static_cast<index_t>(next - first) * room_);
    square_.assign(lanes<F> * width, F{0});  // always 0 beyond d
    std::size_t admits = first;              // the first bucket that admits a pair of the block
    index_t from = 0;
    int filled = 0;
    const auto finish_block = [&] {
      while (pairs_of(waiting_[admits].range.size()) <= from) ++admits;
      for (std::size_t w = admits; w < next; ++w)
        store(v_.data() + static_cast<index_t>(w - first) * room_ + from,
              block_variances(tables.buckets[waiting_[w].bucket].variance.data(), width));
      from += lanes<F>;
      filled = 0;
    };
    for (index_t j = 1; j < n; ++j)
      for (index_t i = 0; i < j; ++i) {
        set_squares(y + i * d_, y + j * d_, square_.data() + filled * width);
        if (++filled == lanes<F>) finish_block();
      }
    if (filled > 0) finish_block();
  }

  void set_squares(const F* a, const F* b, F* to) const {
    index_t c = 0;
    for (; c + lanes<F> <= d_; c += lanes<F>) {
      const vec<F> delta = load(a + c) - load(b + c);
      store(to + c, delta * delta);
    }
    for (; c < d_; ++c) to[c] = (a[c] - b[c]) * (a[c] - b[c]);
  }

  /// Returns the squared differences of a block of pairs times one bucket's variances.
  vec<F> block_variances(const F* variance, index_t width) const {
    constexpr int together = lanes<F> < 4 ? lanes<F> : 4;
    vec<F> sum[lanes<F>];
    for (int p = 0; p < lanes<F>; p += together) {
      const F* const square = square_.data() + p * width;
      vec<F> x[together] = {};
      for (index_t c = 0; c < width; c += lanes<F>) {
        const vec<F> v = load(variance + c);
#pragma GCC unroll 4
        for (int r = 0; r < together; ++r) x[r] += load(square + r * width + c) * v;
      }
#pragma GCC unroll 4
      for (int r = 0; r < together; ++r) sum[p + r] = x[r];
    }
    return sum_of_each<F>(sum);
  }

  /// Adds one bucket with a factor: multiplies the keys that it admits, then sums the pairs of each group.
  void add_factor(const pair_problem& problem, const small_problem<F>& tables, std::size_t bucket, const group_run& run,
                  pair_sink& sink) {
    const auto& of = tables.buckets[bucket];
    const auto& scores = problem.distributions[of.number];
    ranges_.clear();
    index_t low = rows_, high = 0;
    for (index_t g = run.begin; g < run.end; ++g) {
      const auto& range = ranges_.emplace_back(admissible(*sink.groups, g, scores));
      if (range.size() < 2) continue;
      const index_t row = row_of(run, g, sink);
      low = std::min<index_t>(low, run.place[row + range.begin]);
      high = std::max<index_t>(high, run.place[row + range.end - 1] + 1);
    }
    if (high <= low) return;
    product_.multiply(of.factor, low, high);
    for (index_t g = run.begin; g < run.end; ++g) {
      const auto& range = ranges_[g - run.begin];
      if (range.size() < 2) continue;
      const index_t row = row_of(run, g, sink) + range.begin;
      v_.resize(padded<F>(pairs_of(range.size())));
      product_.set_variances(run.place.data() + row, range.size(), v_.data());
      finish_.set_keys(run, g, range.begin, range.end);
      finish_.add(of.number, g, range, scores, v_.data(), scores_of(bucket, row), sink);
    }
  }

  struct admitted {
    std::size_t bucket;
    rank_range range;
  };

  index_t d_ = 0, rows_ = 0, stride_ = 0, room_ = 0;
  aligned_vector<F> y_, lanes_, score_;  ///< keys (rows, d); scores of a block of keys; scores (buckets, stride)
  aligned_vector<F> square_, v_;
  std::vector<admitted> waiting_;
  std::vector<rank_range> ranges_;
  key_products<F> product_;
  pair_finish<F> finish_;
};

}  // namespace qkgeom::cpu
