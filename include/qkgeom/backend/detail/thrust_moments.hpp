// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkgeom/backend/detail/thrust_machine.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/row_moments.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom::thrust_kernels {

inline constexpr index_t tile_rows = 256;

/// Rows of some heads, taken in the order `row`, cut into segments: segment s is row[offset[s]] ... .
template <class T>
struct row_segments {
  const T* data;
  index_t dim, heads, segments;
  index_t row_stride, head_stride;
  const std::int64_t* row;
  const index_t* offset;

  QKGEOM_HD double at(index_t head, index_t i, index_t c) const {
    return static_cast<double>(data[row[i] * row_stride + head * head_stride + c]);
  }
};

/// mean(head, segment, c) about the segment's first row, so that constants stay exact; an empty segment's is left as it
/// was.
template <class T>
struct segment_mean {
  row_segments<T> x;
  double* mean;

  QKGEOM_HD void operator()(index_t i) const {
    const index_t c = i % x.dim, s = i / x.dim % x.segments, head = i / (x.dim * x.segments);
    const index_t begin = x.offset[s], end = x.offset[s + 1];
    if (begin == end) return;
    const double first = x.at(head, begin, c);
    double sum = 0;
    for (index_t from = begin; from < end; from += tile_rows) {
      double tile = 0;
      for (index_t r = from; r < end && r < from + tile_rows; ++r) tile += x.at(head, r, c) - first;
      sum += tile;
    }
    mean[i] = first + sum / static_cast<double>(end - begin);
  }
};

/// Second moments of one head about the segments' means, a row of the scatter in runs of `run` columns, and of x with
/// position. (segments, d, ceil(d / run)) items.
template <class T>
struct segment_scatter {
  static constexpr int run = 8;
  row_segments<T> x;
  index_t head;
  const double *mean, *t_mean;  ///< (segments, d) of this head; (segments)
  const std::int32_t* position;
  double *scatter, *xt;  ///< (segments, d, d), the upper triangle; (segments, d)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t d = x.dim, runs = (d + run - 1) / run;
    const index_t j0 = item % runs * run, i = item / runs % d, s = item / (runs * d);
    if (j0 + run <= i && j0 != 0) return;
    const double *const m = mean + s * d, mi = m[i];
    const int width = static_cast<int>(d - j0 < run ? d - j0 : run);
    double sum[run] = {}, with_t = 0;
    for (index_t from = x.offset[s]; from < x.offset[s + 1]; from += tile_rows) {
      double tile[run] = {}, tile_t = 0;
      for (index_t r = from; r < x.offset[s + 1] && r < from + tile_rows; ++r) {
        const double y = x.at(head, r, i) - mi;
        for (int k = 0; k < width; ++k) tile[k] += y * (x.at(head, r, j0 + k) - m[j0 + k]);
        if (j0 == 0) tile_t += y * (static_cast<double>(position[x.row[r]]) - t_mean[s]);
      }
      for (int k = 0; k < width; ++k) sum[k] += tile[k];
      with_t += tile_t;
    }
    for (int k = 0; k < width; ++k) scatter[(s * d + i) * d + j0 + k] = sum[k];
    if (j0 == 0) xt[s * d + i] = with_t;
  }
};

/// Rows by segment and the means that second moments are taken about.
template <class T>
struct segment_means {
  row_segments<T> rows;
  const std::vector<index_t>& offset;  ///< (segments + 1)
  const double* mean;                  ///< (heads, segments, d), on the device
  const std::vector<double>& t_mean;   ///< (segments)
  const std::int32_t* position;        ///< on the device
};

/// Second moments by one item a run of entries. Calls each(head, scatter (segments, d, d), xt (segments, d)) in order;
/// of the scatter the upper triangle is set.
struct scatter_by_loops {
  template <class Machine, class T, class Each>
  void operator()(const Machine& on, const segment_means<T>& about, const Each& each) const {
    const auto& rows = about.rows;
    const index_t d = rows.dim, segments = rows.segments,
                  runs = (d + segment_scatter<T>::run - 1) / segment_scatter<T>::run;
    const auto t_means = on.copy(about.t_mean);
    const auto scatter = on.template make<double>(segments * d * d);
    const auto xt = on.template make<double>(segments * d);
    for (index_t h = 0; h < rows.heads; ++h) {
      on.each(segments * d * runs, segment_scatter<T>{rows, h, about.mean + h * segments * d, t_means.data(),
                                                      about.position, scatter.data(), xt.data()});
      each(h, scatter.host(), xt.host());
    }
  }
};

/// The number of a (head, row) that holds a value that is not finite, else the largest number there is.
template <class T>
struct unfinished_row {
  row_segments<T> x;
  index_t rows;
  QKGEOM_HD index_t operator()(index_t i) const {
    const index_t head = i / rows, row = i % rows;
    for (index_t c = 0; c < x.dim; ++c) {
      const auto value = static_cast<double>(x.data[row * x.row_stride + head * x.head_stride + c]);
      if (!(value - value == 0)) return i;
    }
    return std::numeric_limits<index_t>::max();
  }
};

/// Rows by segment: stable, rows of segment -1 last. (row, offset), the last segment being -1's.
template <class Machine>
struct sorted_rows {
  typename Machine::template buffer<std::int64_t> row;
  std::vector<index_t> offset;

  sorted_rows(const Machine& on, const std::vector<std::int32_t>& bucket, index_t buckets)
      : row(on.template make<std::int64_t>(static_cast<index_t>(bucket.size()))) {
    const auto n = static_cast<index_t>(bucket.size());
    std::vector<std::int32_t> slot(bucket);
    std::replace(slot.begin(), slot.end(), std::int32_t{-1}, static_cast<std::int32_t>(buckets));
    const auto key = on.copy(slot);
    const auto at = on.template make<index_t>(buckets + 2);
    thrust::sequence(on.policy, row.data(), row.data() + n);
    thrust::stable_sort_by_key(on.policy, key.data(), key.data() + n, row.data());
    thrust::lower_bound(on.policy, key.data(), key.data() + n, thrust::counting_iterator<std::int32_t>(0),
                        thrust::counting_iterator<std::int32_t>(static_cast<std::int32_t>(buckets) + 2), at.data());
    offset = at.host(buckets + 2);
  }
};

/// See cpu_context::moments. Two passes: means about a first row, then second moments about the means, by `scatter_of`.
template <class Machine, class T, memory_space S, class Scatter, class ForEach>
std::vector<side_moments> moments(const Machine& on, const Scatter& scatter_of, ForEach&& for_each, const char* side,
                                  const tensor_view<const T, S>& x, const vector_view<const std::int32_t, S>& position,
                                  const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
  const index_t d = x.dim, segments = buckets + 1;
  const auto n_segments = static_cast<std::size_t>(segments), dim = static_cast<std::size_t>(d);
  const sorted_rows<Machine> order(on, bucket, buckets);
  const auto offset = on.copy(order.offset);
  const row_segments<T> rows{x.data,       d, x.heads, segments, x.row_stride, x.head_stride, order.row.data(),
                             offset.data()};
  auto mean = on.template make<double>(x.heads * segments * d);
  on.fill(mean.data(), mean.size(), 0.0);
  on.each(mean.size(), segment_mean<T>{rows, mean.data()});
  const auto host_mean = mean.host();
  if (!std::all_of(host_mean.begin(), host_mean.end(), [](double v) { return std::isfinite(v); })) {
    const index_t bad = thrust::transform_reduce(
        on.policy, thrust::counting_iterator<index_t>(0), thrust::counting_iterator<index_t>(x.heads * x.rows),
        unfinished_row<T>{rows, x.rows}, std::numeric_limits<index_t>::max(), thrust::minimum<index_t>());
    require(bad >= x.heads * x.rows, side, " head ", bad / std::max<index_t>(1, x.rows), " row ",
            bad % std::max<index_t>(1, x.rows), " holds a value that is not finite");
  }
  // Positions are the same for all heads: their sums are made once, on the host.
  std::vector<std::int32_t> t(static_cast<std::size_t>(x.rows));
  if (x.rows > 0) on.memory.to_host(t.data(), position.data, t.size() * sizeof(std::int32_t));
  const auto host_row = order.row.host();
  std::vector<double> t_mean(n_segments), tt(n_segments);
  for (std::size_t s = 0; s < n_segments; ++s) {
    const auto begin = order.offset[s], end = order.offset[s + 1];
    for (auto i = begin; i < end; ++i) t_mean[s] += t[static_cast<std::size_t>(host_row[static_cast<std::size_t>(i)])];
    t_mean[s] /= std::max(1.0, static_cast<double>(end - begin));
    for (auto i = begin; i < end; ++i) {
      const double y = t[static_cast<std::size_t>(host_row[static_cast<std::size_t>(i)])] - t_mean[s];
      tt[s] += y * y;
    }
  }
  std::vector<side_moments> result(static_cast<std::size_t>(x.heads));
  const segment_means<T> about{rows, order.offset, mean.data(), t_mean, position.data};
  scatter_of(on, about, [&](index_t h, const std::vector<double>& xx, const std::vector<double>& with_t) {
    std::vector<row_moments> parts(n_segments);
    for_each(segments, [&](index_t b) {
      const auto s = static_cast<std::size_t>(b);
      auto& m = parts[s] = row_moments::zero(d, scatter_kind::full);
      m.count = order.offset[s + 1] - order.offset[s];
      if (m.count == 0) return;
      m.mean_t = t_mean[s];
      m.tt = tt[s];
      const auto first = host_mean.begin() + (h * segments + b) * d;
      std::copy(first, first + d, m.mean.begin());
      std::copy(with_t.begin() + b * d, with_t.begin() + (b + 1) * d, m.xt.begin());
      for (std::size_t i = 0; i < dim; ++i)
        for (std::size_t j = i; j < dim; ++j) m.xx[i * dim + j] = m.xx[j * dim + i] = xx[(s * dim + i) * dim + j];
    });
    auto& m = result[static_cast<std::size_t>(h)];
    m.total = row_moments::zero(d, scatter_kind::full);
    for (std::size_t s = 0; s < n_segments; ++s) {
      merge(m.total, parts[s]);
      if (s + 1 == n_segments) continue;
      m.bucket.push_back(row_moments::zero(d, per_bucket));
      merge(m.bucket.back(), parts[s]);
    }
  });
  return result;
}

}  // namespace qkgeom::thrust_kernels
