// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"

namespace qkgeom::cpu {

/// Pairs of groups of at most this many keys are taken from differences, those of larger ones from Gram tiles.
inline constexpr index_t small_group = 64;

/// All query buckets with a diagonal covariance at once, for small groups: lanes are buckets. The v of a block of pairs
/// are one small GEMM, squared differences times the variances of all buckets; m are differences of scores.
template <class F>
class diagonal_buckets {
 public:
  diagonal_buckets(const pair_problem& problem, index_t d) : problem_(problem), d_(d) {
    for (std::size_t l = 0; l < problem.distributions.size(); ++l)
      if (!problem.distributions[l].empty() && !problem.distributions[l].variance.empty())
        which_.push_back(static_cast<index_t>(l));
    width_ = padded<F>(static_cast<index_t>(which_.size()));
    variance_.resize(d * width_);
    mean_.resize(variance_.size());
    for (index_t j = 0; j < static_cast<index_t>(which_.size()); ++j) {
      const auto& scores = problem.distributions[which_[j]];
      auto mean = scores.mean;
      reflect_rows(mean.data(), 1, d, problem.reflector);
      for (index_t c = 0; c < d; ++c) {
        variance_[c * width_ + j] = static_cast<F>(scores.variance[c]);
        mean_[c * width_ + j] = static_cast<F>(mean[c]);
      }
    }
  }
  bool empty() const { return which_.empty(); }

  /// `y` (n, d): the group's centred, reflected keys.
  void add_group(index_t group, const F* y, index_t n, pair_sink& sink) {
    const auto buckets = which_.size();
    range_.resize(buckets);
    first_.assign(width_, 1);
    last_.assign(width_, 0);
    index_t end = 0, begin = n;
    for (std::size_t j = 0; j < buckets; ++j) {
      range_[j] = admissible(*sink.groups, group, scores_of(j));
      first_[j] = static_cast<lane_int>(range_[j].begin);
      last_[j] = static_cast<lane_int>(range_[j].end);
      if (range_[j].size() < 2) continue;
      end = std::max(end, range_[j].end);
      begin = std::min(begin, range_[j].begin);
    }
    total_.assign(width_, 0.0);
    weighted_.assign(request_weight(sink) ? width_ : 0, {});
    if (end - begin >= 2) {
      scale_scores(y, n);
      visit_pairs(group, y, begin, end, sink);
    }
    for (std::size_t j = 0; j < buckets; ++j)
      sink.add_sums(which_[j], group, range_[j], request_weight(sink) ? weighted_[j] : weighted_sums{total_[j]});
  }

 private:
  using lane_int = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;
  using mask = typename simd<F>::mask;

  const score_distribution& scores_of(std::size_t j) const { return problem_.distributions[which_[j]]; }

  /// Scores (n, buckets), and the power of two of each bucket that brings v to order 1 in this group.
  void scale_scores(const F* y, index_t n) {
    const index_t rows = round_up(n, block_rows);
    padded_.assign(rows * d_, F{0});
    std::copy(y, y + n * d_, padded_.begin());
    score_.resize(rows * width_);
    for (index_t i = 0; i < rows; i += block_rows)
      rows_times_lanes(padded_.data() + i * d_, d_, d_, mean_.data(), width_, score_.data() + i * width_);
    square_.assign(d_, F{0});
    for (index_t i = 0; i < n; ++i)
      for (index_t c = 0; c < d_; ++c) square_[c] += y[i * d_ + c] * y[i * d_ + c];
    factor_.assign(width_, F{0});
    for (index_t c = 0; c < d_; ++c)
      for (index_t j = 0; j < width_; ++j) factor_[j] += square_[c] * variance_[c * width_ + j];
    for (F& f : factor_) f = static_cast<F>(backend::unit_scale(static_cast<double>(f) / static_cast<double>(n)));
  }

  void visit_pairs(index_t group, const F* y, index_t begin, index_t end, pair_sink& sink) {
    index_t left[block_rows], right[block_rows];
    int filled = 0;
    difference_.assign(block_rows * d_, F{0});
    v_.resize(block_rows * width_);
    for (index_t j = begin + 1; j < end; ++j)
      for (index_t i = begin; i < j; ++i) {
        left[filled] = i;
        right[filled] = j;
        F* const to = difference_.data() + filled * d_;
        const F *const a = y + i * d_, *const b = y + j * d_;
        for (index_t c = 0; c < d_; ++c) to[c] = (a[c] - b[c]) * (a[c] - b[c]);
        if (++filled == block_rows) {
          finish_block(group, left, right, filled, sink);
          filled = 0;
        }
      }
    finish_block(group, left, right, filled, sink);
  }

  void finish_block(index_t group, const index_t* left, const index_t* right, int filled, pair_sink& sink) {
    if (filled == 0) return;
    rows_times_lanes(difference_.data(), d_, d_, variance_.data(), width_, v_.data());
    const bool simple = sink.simple();
    for (index_t j = 0; j < width_; j += lanes<F>) {
      const auto first = load_mask(first_.data() + j), last = load_mask(last_.data() + j);
      const vec<F> factor = load(factor_.data() + j), zero{};
      vec<F> sum{};
      for (int p = 0; p < filled; ++p) {
        const vec<F> m = load(score(left[p]) + j) - load(score(right[p]) + j);
        const vec<F> v = load(v_.data() + p * width_ + j) * factor * factor;
        vec<F> pp = difference_plasticity<F>(m * factor, v);
        const mask inside = (first <= static_cast<lane_int>(left[p])) & (last > static_cast<lane_int>(right[p]));
        pp = inside ? pp : zero;
        sum += pp;
        if (!simple) store(v_.data() + p * width_ + j, pp);
      }
      if (!request_weight(sink))
        for (int l = 0; l < lanes<F>; ++l) total_[j + l] += static_cast<double>(sum[l]);
    }
    for (int p = 0; p < filled && !simple; ++p) add_pair(group, left[p], right[p], v_.data() + p * width_, sink);
  }

  static bool request_weight(const pair_sink& sink) { return static_cast<bool>(sink.request->weight); }

  /// Weights and heatmap cells of one pair under every bucket that admits it; `pp` (buckets) is its plasticity.
  void add_pair(index_t group, index_t left, index_t right, const F* pp, pair_sink& sink) {
    const auto place = sink.place(group, left, right);
    for (std::size_t l = 0; l < which_.size(); ++l) {
      if (first_[l] > left || last_[l] <= right) continue;
      const auto value = static_cast<double>(pp[l]);
      const double w = sink.weight(group, range_[l], scores_of(l), left, right);
      if (w == 0) continue;
      sink.add_heat(place, scores_of(l), value, w);
      if (request_weight(sink)) weighted_[l].add(value, w);
    }
  }

  const F* score(index_t i) const { return score_.data() + i * width_; }
  static mask load_mask(const lane_int* p) {
    mask m;
    std::memcpy(&m, p, sizeof m);
    return m;
  }

  const pair_problem& problem_;
  index_t d_, width_ = 0;
  std::vector<index_t> which_;
  std::vector<F> variance_, mean_;  // (d, width), lanes are buckets
  std::vector<rank_range> range_;
  std::vector<lane_int> first_, last_;
  std::vector<double> total_;            // of all pairs, lanes are buckets
  std::vector<weighted_sums> weighted_;  // of weighted ones
  std::vector<F> padded_, score_, square_, factor_, difference_, v_;
};

}  // namespace qkgeom::cpu
