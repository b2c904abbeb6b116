// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/cpu/scatter.hpp"
#include "qkgeom/backend/detail/cpu/wide_rows.hpp"
#include "qkgeom/context/row_moments.hpp"

namespace qkgeom::cpu {

/// Rows sorted by bucket, stable: bucket b has rows row[offset[b]] to row[offset[b + 1] - 1]; the last one has no
/// bucket.
struct row_order {
  std::vector<index_t> row, offset;

  row_order(const std::vector<std::int32_t>& bucket, index_t buckets) : row(bucket.size()), offset(buckets + 2) {
    const auto slot = [&](std::int32_t b) { return b < 0 ? buckets : b; };
    for (const std::int32_t b : bucket) ++offset[slot(b) + 1];
    for (std::size_t b = 1; b < offset.size(); ++b) offset[b] += offset[b - 1];
    auto next = offset;
    for (std::size_t i = 0; i < bucket.size(); ++i) row[next[slot(bucket[i])]++] = static_cast<index_t>(i);
  }
};

struct moment_scratch {
  std::vector<double> shift;  ///< (d)
  scatter_sum scatter;
};

/// out = scatter - weight mean mean', both triangles; by blocks, since one of the two is written across rows.
inline void corrected_scatter(const scatter_sum& scatter, double weight, const std::vector<double>& mean,
                              std::vector<double>& out) {
  constexpr index_t block = 16;
  const auto d = static_cast<index_t>(mean.size());
  for (index_t i0 = 0; i0 < d; i0 += block)
    for (index_t j0 = i0; j0 < d; j0 += block)
      for (index_t i = i0; i < std::min(d, i0 + block); ++i) {
        const double wi = weight * mean[i];
        for (index_t j = std::max(i, j0); j < std::min(d, j0 + block); ++j)
          out[i * d + j] = out[j * d + i] = scatter(i, j) - wi * mean[j];
      }
}

/// Moments with the full scatter of the n > 0 rows x[order[0]], ..., x[order[n - 1]]: one pass about `shift`, tile by
/// tile, then the correction to the mean. Sums run in row order, whatever the memory's alignment.
inline row_moments shifted_moments(const char* side, index_t head, const wide_rows& x,
                                   const vector_view<const std::int32_t>& position, const index_t* order, index_t n,
                                   moment_scratch& scratch) {
  constexpr index_t ahead = 8;
  const index_t d = x.cols;
  auto m = row_moments::zero(d, scatter_kind::full);
  const double t0 = position[order[0]];
  const double* const shift = scratch.shift.data();
  double *const mean = m.mean.data(), *const xt = m.xt.data();
  scratch.scatter.reset(d);
  const index_t tile_rows = scratch.scatter.tile_rows();
  for (index_t from = 0; from < n; from += tile_rows) {
    const index_t rows = std::min(n - from, tile_rows);
    for (index_t i = 0; i < rows; ++i) {
      double* const row = scratch.scatter.row(i);
      if (from + i + ahead < n) x.prefetch(order[from + i + ahead]);
      x.read(order[from + i], row);
      const double t = position[order[from + i]] - t0;
      m.mean_t += t;
      m.tt += t * t;
      for (index_t c = 0; c < d; ++c) {
        const double y = row[c] - shift[c];
        row[c] = y;
        mean[c] += y;
        xt[c] += t * y;
      }
    }
    scratch.scatter.add(rows);
  }
  const double count = static_cast<double>(n);
  m.count = n;
  m.mean_t /= count;
  m.tt -= count * m.mean_t * m.mean_t;
  bool finite = true;
  for (index_t c = 0; c < d; ++c) {
    mean[c] /= count;
    xt[c] -= count * m.mean_t * mean[c];
    finite &= std::isfinite(mean[c]);
  }
  for (index_t i = 0; i < n && !finite; ++i) {
    x.read(order[i], scratch.scatter.row(0));
    for (index_t c = 0; c < d; ++c)
      require(std::isfinite(scratch.scatter.row(0)[c]), side, " head ", head, " row ", order[i],
              " holds a value that is not finite");
  }
  corrected_scatter(scratch.scatter, count, m.mean, m.xx);
  for (index_t c = 0; c < d; ++c) mean[c] += shift[c];
  m.mean_t += t0;
  return m;
}

/// Moments of one head, bucket by bucket. The shift is the mean of the rows before, at first the first row, so that
/// constants stay exact and the correction is small. A bucket is cut into runs, so that no sum grows long.
inline side_moments side_moments_of(const char* side, index_t head, const wide_rows& x,
                                    const vector_view<const std::int32_t>& position, const row_order& order,
                                    scatter_kind per_bucket) {
  constexpr index_t run_rows = 1 << 16;
  const auto buckets = static_cast<index_t>(order.offset.size()) - 2;
  moment_scratch scratch;
  side_moments m{row_moments::zero(x.cols, scatter_kind::full), {}};
  m.bucket.reserve(buckets);
  for (index_t b = 0; b <= buckets; ++b) {
    const index_t begin = order.offset[b], end = order.offset[b + 1];
    std::optional<row_moments> sum;
    for (index_t i = begin; i < end; i += run_rows) {
      const index_t* const rows = order.row.data() + i;
      scratch.shift = m.total.mean;
      if (m.total.count == 0) x.read(rows[0], scratch.shift.data());
      auto moments = shifted_moments(side, head, x, position, rows, std::min(end - i, run_rows), scratch);
      merge(m.total, moments);
      if (!sum && per_bucket == scatter_kind::full) {
        sum = std::move(moments);
        continue;
      }
      if (!sum) sum = row_moments::zero(x.cols, per_bucket);
      merge(*sum, moments);
    }
    if (b < buckets) m.bucket.push_back(sum ? std::move(*sum) : row_moments::zero(x.cols, per_bucket));
  }
  return m;
}

}  // namespace qkgeom::cpu
