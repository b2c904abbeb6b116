// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "qkgeom/core/head.hpp"
#include "qkgeom/core/row_moments.hpp"

namespace qkgeom::cpu {

using f64_rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows sorted by bucket, stable: rows of bucket b are row[offset[b]] ...; rows outside all buckets come last.
struct row_order {
  std::vector<index_t> row, offset;

  row_order(const std::vector<std::int32_t>& bucket, index_t buckets)
      : row(bucket.size()), offset(static_cast<std::size_t>(buckets) + 2) {
    const auto slot = [&](std::int32_t b) { return static_cast<std::size_t>(b < 0 ? buckets : b); };
    for (const std::int32_t b : bucket) ++offset[slot(b) + 1];
    for (std::size_t b = 1; b < offset.size(); ++b) offset[b] += offset[b - 1];
    auto next = offset;
    for (std::size_t i = 0; i < bucket.size(); ++i) row[static_cast<std::size_t>(next[slot(bucket[i])]++)] = static_cast<index_t>(i);
  }
};

/// Moments of a tile of at most a few hundred rows: a shift by the first row keeps constants exact, the scatter is one
/// symmetric rank-k update.
template <class RowAt, class T>
row_moments tile_moments(const char* side, index_t head, const matrix_view<const T>& x, const vector_view<const std::int32_t>& position,
                         index_t begin, index_t end, const RowAt& row_at, scatter_kind kind, f64_rows& tile, Eigen::VectorXd& time) {
  const index_t n = end - begin, d = x.cols;
  auto m = row_moments::zero(d, kind);
  tile.resize(n, d);
  time.resize(n);
  const T* const first = x.row(row_at(begin));
  const double t0 = position[row_at(begin)];
  for (index_t i = 0; i < n; ++i) {
    const index_t row = row_at(begin + i);
    const T* const from = x.row(row);
    double* const to = tile.data() + i * d;
    for (index_t c = 0; c < d; ++c) to[c] = static_cast<double>(from[c]) - static_cast<double>(first[c]);
    time[i] = position[row] - t0;
  }
  const double inverse = 1.0 / static_cast<double>(n);
  const Eigen::RowVectorXd mean = tile.colwise().sum() * inverse;
  if (!mean.allFinite())
    for (index_t i = 0; i < n; ++i)
      for (index_t c = 0; c < d; ++c)
        require(std::isfinite(static_cast<double>(x(row_at(begin + i), c))), side, " head ", head, " row ", row_at(begin + i),
                " holds a value that is not finite");
  const double mean_t = time.sum() * inverse;
  tile.rowwise() -= mean;
  time.array() -= mean_t;
  m.count = n;
  m.mean_t = t0 + mean_t;
  m.tt = time.squaredNorm();
  for (index_t c = 0; c < d; ++c) m.mean[static_cast<std::size_t>(c)] = static_cast<double>(first[c]) + mean[c];
  Eigen::Map<Eigen::RowVectorXd>(m.xt.data(), d).noalias() = time.transpose() * tile;
  if (kind == scatter_kind::diagonal) {
    Eigen::Map<Eigen::RowVectorXd>(m.xx.data(), d) = tile.colwise().squaredNorm();
  } else {
    Eigen::Map<Eigen::MatrixXd> scatter(m.xx.data(), d, d);
    scatter.selfadjointView<Eigen::Lower>().rankUpdate(tile.transpose());
    scatter.triangularView<Eigen::StrictlyUpper>() = scatter.transpose();
  }
  return m;
}

/// Moments of one head's rows: tiles in a fixed order, so the result depends on the rows alone.
template <class T>
side_moments side_moments_of(const char* side, index_t head, const matrix_view<const T>& x,
                             const vector_view<const std::int32_t>& position,
                             const row_order& order, scatter_kind per_bucket) {
  constexpr index_t tile_rows = 256;
  const auto buckets = static_cast<index_t>(order.offset.size()) - 2;
  f64_rows tile;
  Eigen::VectorXd time;
  side_moments m{row_moments::zero(x.cols, scatter_kind::full), {}};
  m.bucket.reserve(static_cast<std::size_t>(buckets));
  const auto ordered = [&](index_t i) { return order.row[static_cast<std::size_t>(i)]; };
  const bool through_buckets = per_bucket == scatter_kind::full;
  for (index_t b = 0; b <= buckets; ++b) {
    const index_t begin = order.offset[static_cast<std::size_t>(b)], end = order.offset[static_cast<std::size_t>(b) + 1];
    auto sum = row_moments::zero(x.cols, through_buckets ? scatter_kind::full : scatter_kind::diagonal);
    for (index_t i = begin; i < end; i += tile_rows)
      merge(sum, tile_moments(side, head, x, position, i, std::min(end, i + tile_rows), ordered,
                              through_buckets ? scatter_kind::full : scatter_kind::diagonal, tile, time));
    if (through_buckets) merge(m.total, sum);
    if (b < buckets) m.bucket.push_back(std::move(sum));
  }
  if (!through_buckets)
    for (index_t i = 0; i < x.rows; i += tile_rows)
      merge(m.total, tile_moments(side, head, x, position, i, std::min(x.rows, i + tile_rows), [](index_t r) { return r; },
                                  scatter_kind::full, tile, time));
  return m;
}

}  // namespace qkgeom::cpu
