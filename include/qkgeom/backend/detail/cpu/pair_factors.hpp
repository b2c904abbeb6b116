// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"

namespace qkgeom::cpu {

/// Query buckets with a factor F of their covariance, for small groups: one GEMM per bucket takes the admissible keys
/// of many groups to z = F'k, then v_ij = |z_i - z_j|^2 from differences, lanes over j.
template <class F>
class factor_buckets {
 public:
  factor_buckets(const pair_problem& problem, index_t d) : problem_(problem), d_(d) {
    for (std::size_t l = 0; l < problem.distributions.size(); ++l)
      if (!problem.distributions[l].empty() && problem.distributions[l].variance.empty())
        which_.push_back(static_cast<index_t>(l));
  }
  bool empty() const { return which_.empty(); }

  /// `y` (rows, d): the centred keys of the groups `small`, one group after the other.
  void add_groups(const std::vector<index_t>& small, const F* y, pair_sink& sink) {
    for (const index_t l : which_) {
      const auto& scores = problem_.distributions[l];
      gather(small, y, scores, sink);
      if (kept_.rows() == 0) continue;
      scale(scores);
      index_t row = 0;
      for (std::size_t g = 0; g < small.size(); ++g) {
        if (range_[g].size() < 2) continue;
        add_group(l, small[g], range_[g], row, sink);
        row += range_[g].size();
      }
    }
  }

 private:
  using rows = rows_matrix<F>;

  void gather(const std::vector<index_t>& small, const F* y, const score_distribution& scores, const pair_sink& sink) {
    range_.clear();
    index_t count = 0, row = 0;
    for (const index_t g : small) {
      range_.push_back(admissible(*sink.groups, g, scores));
      if (range_.back().size() >= 2) count += range_.back().size();
    }
    kept_.resize(count, d_);
    count = 0;
    for (std::size_t g = 0; g < small.size(); ++g) {
      if (range_[g].size() >= 2) {
        std::copy(y + (row + range_[g].begin) * d_, y + (row + range_[g].end) * d_, kept_.data() + count * d_);
        count += range_[g].size();
      }
      row += sink.groups->offset[small[g] + 1] - sink.groups->offset[small[g]];
    }
  }

  /// z and the scores of the kept keys, scaled by a power of two so that v is of order 1.
  void scale(const score_distribution& scores) {
    factor_.resize(d_, scores.rank);
    for (index_t i = 0; i < factor_.size(); ++i) factor_.data()[i] = static_cast<F>(scores.factor[i]);
    mean_.resize(d_);
    for (index_t c = 0; c < d_; ++c) mean_[c] = static_cast<F>(scores.mean[c]);
    z_.noalias() = kept_ * factor_;
    score_.noalias() = kept_ * mean_;
    const double square = static_cast<double>(z_.squaredNorm());
    const auto factor = static_cast<F>(backend::unit_scale(square / static_cast<double>(z_.rows())));
    z_ *= factor;
    score_ *= factor;
  }

  void add_group(index_t l, index_t group, const rank_range& range, index_t first, pair_sink& sink) {
    constexpr int L = lanes<F>, block = 4;
    const index_t m = range.size(), rank = z_.cols(), width = padded<F>(m);
    across_.assign(rank * width, F{0});
    for (index_t i = 0; i < m; ++i)
      for (index_t c = 0; c < rank; ++c) across_[c * width + i] = z_(first + i, c);
    scores_.assign(width, F{0});
    for (index_t i = 0; i < m; ++i) scores_[i] = score_[first + i];
    const auto& scores = problem_.distributions[l];
    const bool simple = sink.simple();
    weighted_sums total;
    for (index_t i = 0; i + 1 < m; i += block)
      for (index_t j = (i + 1) / L * L; j < width; j += L) {
        vec<F> v[block] = {};
        const F* at = across_.data();
        for (index_t c = 0; c < rank; ++c, at += width) {
          const vec<F> zj = load(at + j);
#pragma GCC unroll 4
          for (int r = 0; r < block; ++r) {
            const vec<F> delta = zj - at[std::min(i + r, width - 1)];
            v[r] += delta * delta;
          }
        }
        const vec<F> sj = load(scores_.data() + j);
        for (index_t r = 0; r < block && i + r + 1 < m; ++r) {
          F pp[L];
          store(pp, difference_plasticity<F>(sj - scores_[i + r], v[r]));
          for (index_t k = std::max(j, i + r + 1); k < std::min(m, j + L); ++k) {
            const auto value = static_cast<double>(pp[k - j]);
            if (simple) {
              total.sum += value;
              continue;
            }
            const index_t left = range.begin + i + r, right = range.begin + k;
            const double w = sink.weight(group, range, scores, left, right);
            if (w == 0) continue;
            sink.add_heat(sink.place(group, left, right), scores, value, w);
            total.add(value, w);
          }
        }
      }
    sink.add_sums(l, group, range, total);
  }

  const pair_problem& problem_;
  index_t d_;
  std::vector<index_t> which_;
  std::vector<rank_range> range_;
  rows kept_, factor_, z_;
  Eigen::Matrix<F, Eigen::Dynamic, 1> mean_, score_;
  std::vector<F> across_, scores_;
};

}  // namespace qkgeom::cpu
