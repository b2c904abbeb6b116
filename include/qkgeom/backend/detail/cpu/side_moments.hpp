// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/cpu/bf16_scatter.hpp"
#include "qkgeom/backend/detail/cpu/scatter_sum.hpp"
#include "qkgeom/backend/detail/cpu/wide_rows.hpp"
#include "qkgeom/context/row_moments.hpp"

namespace qkgeom::cpu {

/// Rows in a stable order by bucket: bucket b has rows row[offset[b]] to row[offset[b + 1] - 1]; the rest come last.
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
  bf16_scatter bf16;
  row_moments run;  ///< moments of the last run
};

/// Sets out = scatter - weight mean mean', both triangles, by square blocks, since one triangle is written across rows.
inline void corrected_scatter(const scatter_sum& scatter, const bf16_scatter* rests, double weight,
                              const std::vector<double>& mean, std::vector<double>& out) {
  constexpr index_t block = 16;
  const auto d = static_cast<index_t>(mean.size());
  for (index_t i0 = 0; i0 < d; i0 += block)
    for (index_t j0 = i0; j0 < d; j0 += block) {
      const index_t rows = std::min(block, d - i0), columns = std::min(block, d - j0);
      double part[block][block];
      for (index_t i = 0; i < rows; ++i) {
        const double wi = weight * mean[i0 + i];
        const double* const from = scatter.upper(i0 + i) + j0;
        for (index_t j = 0; j < columns; ++j) part[i][j] = from[j] - wi * mean[j0 + j];
      }
      if (rests) rests->add_rests(i0, j0, rows, columns, part);
      for (index_t i = 0; i < rows; ++i)
        for (index_t j = i0 == j0 ? i : 0; j < columns; ++j) out[(i0 + i) * d + j0 + j] = part[i][j];
      for (index_t j = 0; j < columns; ++j)
        for (index_t i = 0; i < (i0 == j0 ? j : rows); ++i) out[(j0 + j) * d + i0 + i] = part[i][j];
    }
}

/// Adds a block of the `left` rows x[order[0]], ... to the scatter, and to mean and xt their sums about `shift` and t0.
inline void add_wide_block(const wide_rows& x, const vector_view<const std::int32_t>& position, double t0,
                           const index_t* order, index_t rows, index_t left, moment_scratch& scratch, double* mean,
                           double* xt) {
  constexpr index_t ahead = 8;
  const double* const shift = scratch.shift.data();
  for (index_t i = 0; i < rows; ++i) {
    double* const row = scratch.scatter.row(i);
    if (i + ahead < left) x.prefetch(order[i + ahead]);
    x.read(order[i], row);
    const double t = position[order[i]] - t0;
    for (index_t c = 0; c < x.cols; ++c) {
      const double y = row[c] - shift[c];
      row[c] = y;
      mean[c] += y;
      xt[c] += t * y;
    }
  }
  scratch.scatter.add(rows);
}

/// Sets scratch.run to the moments with the full scatter of the n > 0 rows x[order[0]], ..., x[order[n - 1]]: one pass
/// about `shift`, block by block, then the correction to the mean. Sums run in row order for any alignment of memory.
inline void set_run_moments(const char* side, index_t head, const wide_rows& x,
                            const vector_view<const std::int32_t>& position, const index_t* order, index_t n,
                            moment_scratch& scratch) {
  const index_t d = x.cols;
  auto& m = scratch.run;
  m.mean.assign(d, 0.0);
  m.xt.assign(d, 0.0);
  m.xx.resize(d * d);
  m.mean_t = m.tt = 0;
  const std::int32_t first = position[order[0]];
  const double t0 = first;
  for (index_t i = 0; i < n; ++i) {
    const double t = position[order[i]] - t0;
    m.mean_t += t;
    m.tt += t * t;
  }
  double *const shift = scratch.shift.data(), *const mean = m.mean.data(), *const xt = m.xt.data();
  scratch.scatter.reset(d);
  const bool narrow = bf16_scatter::takes(x, n) && scratch.bf16.begin(x, order, n, shift);
  bool taken = narrow;  // rows after a block that needs f64 go through f64, since they are likely to need it too
  for (index_t from = 0, rows = 0; from < n; from += rows) {
    rows = taken ? scratch.bf16.add(x, position, first, order + from, n - from, scratch.scatter, mean, xt) : 0;
    taken = rows > 0;
    if (taken) continue;
    rows = std::min(n - from, scratch.scatter.rows_per_block());
    add_wide_block(x, position, t0, order + from, rows, n - from, scratch, mean, xt);
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
  corrected_scatter(scratch.scatter, narrow ? &scratch.bf16 : nullptr, count, m.mean, m.xx);
  for (index_t c = 0; c < d; ++c) mean[c] += shift[c];
  m.mean_t += t0;
}

/// Computes the moments of one head, bucket by bucket. The shift is the mean of the earlier rows, at first the first
/// row (for bf16, of the run's first rows), so that constants stay exact and the correction is small. A bucket is cut
/// into runs, so that no sum grows long.
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
      set_run_moments(side, head, x, position, rows, std::min(end - i, run_rows), scratch);
      merge(m.total, scratch.run);
      if (!sum && per_bucket == scatter_kind::full) {
        sum = std::move(scratch.run);
        continue;
      }
      if (!sum) sum = row_moments::zero(x.cols, per_bucket);
      merge(*sum, scratch.run);
    }
    if (b < buckets) m.bucket.push_back(sum ? std::move(*sum) : row_moments::zero(x.cols, per_bucket));
  }
  return m;
}

}  // namespace qkgeom::cpu
