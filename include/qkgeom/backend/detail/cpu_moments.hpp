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

/// Rows of one tile in f64, kept between tiles.
struct moment_tile {
  std::vector<double> x, t;  ///< (rows, d), (rows)
  Eigen::MatrixXd scatter;
};

/// Moments of a tile of at most a few hundred rows: a shift by the first row keeps constants exact, the scatter is one
/// symmetric rank-k update. Sums run in row order, whatever the alignment of the memory.
template <class RowAt, class T>
row_moments tile_moments(const char* side, index_t head, const matrix_view<const T>& x, const vector_view<const std::int32_t>& position,
                         index_t begin, index_t end, const RowAt& row_at, scatter_kind kind, moment_tile& tile) {
  const index_t n = end - begin, d = x.cols;
  auto m = row_moments::zero(d, kind);
  tile.x.resize(static_cast<std::size_t>(n * d));
  tile.t.resize(static_cast<std::size_t>(n));
  const T* const first = x.row(row_at(begin));
  const double t0 = position[row_at(begin)];
  double* const mean = m.mean.data();
  for (index_t i = 0; i < n; ++i) {
    const T* const from = x.row(row_at(begin + i));
    double* const to = tile.x.data() + i * d;
    for (index_t c = 0; c < d; ++c) {
      to[c] = static_cast<double>(from[c]) - static_cast<double>(first[c]);
      mean[c] += to[c];
    }
    const double t = position[row_at(begin + i)] - t0;
    tile.t[static_cast<std::size_t>(i)] = t;
    m.mean_t += t;
  }
  const double inverse = 1.0 / static_cast<double>(n);
  m.count = n;
  m.mean_t *= inverse;
  bool finite = true;
  for (index_t c = 0; c < d; ++c) finite &= std::isfinite(mean[c] *= inverse);
  for (index_t i = 0; i < n && !finite; ++i)
    for (index_t c = 0; c < d; ++c)
      require(std::isfinite(static_cast<double>(x(row_at(begin + i), c))), side, " head ", head, " row ", row_at(begin + i),
              " holds a value that is not finite");
  const bool full = kind == scatter_kind::full;
  for (index_t i = 0; i < n; ++i) {
    double* const row = tile.x.data() + i * d;
    const double t = tile.t[static_cast<std::size_t>(i)] - m.mean_t;
    m.tt += t * t;
    for (index_t c = 0; c < d; ++c) {
      row[c] -= mean[c];
      m.xt[static_cast<std::size_t>(c)] += t * row[c];
    }
    if (!full)
      for (index_t c = 0; c < d; ++c) m.xx[static_cast<std::size_t>(c)] += row[c] * row[c];
  }
  if (full) {
    tile.scatter.setZero(d, d);
    tile.scatter.selfadjointView<Eigen::Lower>().rankUpdate(Eigen::Map<const f64_rows>(tile.x.data(), n, d).transpose());
    tile.scatter.triangularView<Eigen::StrictlyUpper>() = tile.scatter.transpose();
    std::copy(tile.scatter.data(), tile.scatter.data() + d * d, m.xx.data());
  }
  for (index_t c = 0; c < d; ++c) mean[c] += static_cast<double>(first[c]);
  m.mean_t += t0;
  return m;
}

/// Moments of one head's rows: tiles in a fixed order, so the result depends on the rows alone.
template <class T>
side_moments side_moments_of(const char* side, index_t head, const matrix_view<const T>& x,
                             const vector_view<const std::int32_t>& position,
                             const row_order& order, scatter_kind per_bucket) {
  constexpr index_t tile_rows = 256;
  const auto buckets = static_cast<index_t>(order.offset.size()) - 2;
  moment_tile tile;
  side_moments m{row_moments::zero(x.cols, scatter_kind::full), {}};
  m.bucket.reserve(static_cast<std::size_t>(buckets));
  const auto ordered = [&](index_t i) { return order.row[static_cast<std::size_t>(i)]; };
  const bool through_buckets = per_bucket == scatter_kind::full;
  for (index_t b = 0; b <= buckets; ++b) {
    const index_t begin = order.offset[static_cast<std::size_t>(b)], end = order.offset[static_cast<std::size_t>(b) + 1];
    auto sum = row_moments::zero(x.cols, through_buckets ? scatter_kind::full : scatter_kind::diagonal);
    for (index_t i = begin; i < end; i += tile_rows)
      merge(sum, tile_moments(side, head, x, position, i, std::min(end, i + tile_rows), ordered,
                              through_buckets ? scatter_kind::full : scatter_kind::diagonal, tile));
    if (through_buckets) merge(m.total, sum);
    if (b < buckets) m.bucket.push_back(std::move(sum));
  }
  if (!through_buckets)
    for (index_t i = 0; i < x.rows; i += tile_rows)
      merge(m.total, tile_moments(side, head, x, position, i, std::min(x.rows, i + tile_rows), [](index_t r) { return r; },
                                  scatter_kind::full, tile));
  return m;
}

}  // namespace qkgeom::cpu
