// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <utility>

#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/backend/detail/cpu/simd.hpp"
#include "qkgeom/backend/detail/pair_cells.hpp"

namespace qkgeom::cpu {

/// Plasticity of a pair, then its terms in the order of `pair_term`.
using pair_values = std::array<double, heatmap_terms::values>;

/// The keys of one group that a query bucket admits, in f64, as plasticity and terms of a pair need them: v of
/// coordinates 2..d is |z_i - z_j|^2. (thrust_kernels::term_keys has another layout and other bits.)
class term_keys {
 public:
  /// `y` (n, d): the group's centred keys in Householder coordinates.
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

  /// Of the keys of ranks i < j in the range; `same_position`: neither is later.
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

  /// z of coordinates 2..d; `squares` adds coordinate 1 by its row of the factor.
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

  /// |a - b|^2, and |a - b + step factor|^2 where there is a factor.
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
  std::vector<double> factor_;           // (width) coordinate 1's row of the factor; empty: a diagonal covariance
};

}  // namespace qkgeom::cpu
