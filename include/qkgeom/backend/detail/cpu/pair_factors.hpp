// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_blocks.hpp"

namespace qkgeom::cpu {

/// A factor (d, width) of a covariance in reflected coordinates, with padded columns, and where its columns begin: a
/// triangle has only zeros above its diagonal.
template <class F>
struct factor_columns {
  index_t width = 0;
  aligned_vector<F> value;
  std::vector<index_t> first;  ///< (width / lanes) the first nonzero row of a vector's columns

  factor_columns() = default;
  factor_columns(const score_distribution& scores, const std::vector<double>& reflector, index_t d)
      : width(std::max(padded<F>(scores.rank), index_t{lanes<F>})) {
    rows_matrix<double> factor = Eigen::Map<const rows_matrix<double>>(scores.factor.data(), d, scores.rank);
    if (!reflector.empty()) {
      const Eigen::Map<const Eigen::VectorXd> u(reflector.data(), d);
      const Eigen::RowVectorXd along = u.transpose() * factor;
      factor.noalias() -= 2 * u * along;
      clear_rounding(factor);
    }
    value.assign(d * width, F{0});
    for (index_t i = 0; i < d; ++i)
      for (index_t c = 0; c < scores.rank; ++c) value[i * width + c] = static_cast<F>(factor(i, c));
    for (index_t c = 0; c < width; c += lanes<F>) {
      const auto zero_row = [&](index_t i) {
        const F* const row = value.data() + i * width + c;
        return std::all_of(row, row + lanes<F>, [](F x) { return x == 0; });
      };
      index_t i = 0;
      while (i < d && zero_row(i)) ++i;
      first.push_back(i);
    }
  }

 private:
  /// Replaces the entries above the diagonal of a triangle that was reflected twice by zeros, if all are only rounding.
  static void clear_rounding(rows_matrix<double>& factor) {
    const double eps = static_cast<double>(factor.rows()) * std::numeric_limits<double>::epsilon();
    Eigen::RowVectorXd above = Eigen::RowVectorXd::Zero(factor.cols()), below = above;
    for (index_t i = 0; i < factor.rows(); ++i) {
      const index_t diagonal = std::min(i + 1, factor.cols()), rest = factor.cols() - diagonal;
      below.head(diagonal) = below.head(diagonal).cwiseMax(factor.row(i).head(diagonal).cwiseAbs());
      above.tail(rest) = above.tail(rest).cwiseMax(factor.row(i).tail(rest).cwiseAbs());
    }
    if ((above.array() <= eps * below.array()).all()) factor.triangularView<Eigen::StrictlyUpper>().setZero();
  }
};

/// Products z = F'k of keys of many groups, by position, with one factor after another; their differences give v.
template <class F>
class key_products {
 public:
  /// Sets the keys: `y` (rows, d) are centred and reflected; key i stands at place[i].
  void set_keys(const F* y, index_t rows, index_t d, const std::vector<std::int32_t>& place) {
    d_ = d;
    y_.resize((rows + block) * d);
    for (index_t i = 0; i < rows; ++i) std::copy(y + i * d, y + (i + 1) * d, y_.data() + place[i] * d);
  }

  /// Computes z of the keys at the places [begin, end).
  void multiply(const factor_columns<F>& factor, index_t begin, index_t end) {
    width_ = factor.width;
    begin_ = begin;
    z_.resize(std::max<std::size_t>(z_.size(), round_up(end - begin, block) * width_));
    constexpr int L = lanes<F>;
    for (index_t i = 0; i < end - begin; i += block) {
      const F* const y = y_.data() + (begin + i) * d_;
      F* const z = z_.data() + i * width_;
      index_t c = 0;
      for (; c + 2 * L <= width_; c += 2 * L)
        multiply_block<2>(y, factor.value.data() + c, factor.first.data() + c / L, z + c);
      if (c < width_) multiply_block<1>(y, factor.value.data() + c, factor.first.data() + c / L, z + c);
    }
  }

  /// Sets v (pairs, padded) = |z_i - z_j|^2 of the n keys at `place`.
  void set_variances(const std::int32_t* place, index_t n, F* v) const {
    constexpr int together = 4;
    vec<F> waiting[lanes<F>];
    int filled = 0;
    const auto take = [&](const vec<F>& x) {
      waiting[filled] = x;
      if (++filled < lanes<F>) return;
      store(v, sum_of_each<F>(waiting));
      v += lanes<F>;
      filled = 0;
    };
    for (index_t j = 1; j < n; ++j) {
      const F* const zj = z(place[j]);
      index_t i = 0;
      for (; i + together <= j; i += together) {
        const F* zi[together];
        for (int r = 0; r < together; ++r) zi[r] = z(place[i + r]);
        vec<F> sum[together] = {};
        for (index_t c = 0; c < width_; c += lanes<F>) {
          const vec<F> b = load(zj + c);
#pragma GCC unroll 4
          for (int r = 0; r < together; ++r) {
            const vec<F> delta = load(zi[r] + c) - b;
            sum[r] += delta * delta;
          }
        }
        for (int r = 0; r < together; ++r) take(sum[r]);
      }
      for (; i < j; ++i) {
        const F* const zi = z(place[i]);
        vec<F> sum{};
        for (index_t c = 0; c < width_; c += lanes<F>) {
          const vec<F> delta = load(zi + c) - load(zj + c);
          sum += delta * delta;
        }
        take(sum);
      }
    }
    while (filled > 0) take(vec<F>{});
  }

 private:
#if defined(__AVX512F__)
  static constexpr int block = 12;
#else
  static constexpr int block = 6;
#endif

  const F* z(index_t place) const { return z_.data() + (place - begin_) * width_; }

  /// Computes z of `block` rows of y times `Vectors` vectors of columns, which begin at the rows `first`.
  template <int Vectors>
  void multiply_block(const F* y, const F* columns, const index_t* first, F* to) const {
    vec<F> sum[block][Vectors] = {};
    index_t i = Vectors == 1 ? first[0] : std::min(first[0], first[Vectors - 1]);
    if constexpr (Vectors == 2)
      for (; i < first[1]; ++i) {
        const vec<F> f = load(columns + i * width_);
#pragma GCC unroll 12
        for (int r = 0; r < block; ++r) sum[r][0] += f * y[r * d_ + i];
      }
    for (; i < d_; ++i) {
      vec<F> f[Vectors];
      for (int k = 0; k < Vectors; ++k) f[k] = load(columns + i * width_ + k * lanes<F>);
#pragma GCC unroll 12
      for (int r = 0; r < block; ++r)
        for (int k = 0; k < Vectors; ++k) sum[r][k] += f[k] * y[r * d_ + i];
    }
    for (int r = 0; r < block; ++r)
      for (int k = 0; k < Vectors; ++k) store(to + r * width_ + k * lanes<F>, sum[r][k]);
  }

  index_t d_ = 0, width_ = 0, begin_ = 0;
  aligned_vector<F> y_, z_;
};

}  // namespace qkgeom::cpu
