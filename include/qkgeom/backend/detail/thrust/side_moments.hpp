// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkgeom/backend/detail/thrust/device.hpp"
#include "qkgeom/backend/detail/tiles/tile_team.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom::thrust_kernels {

inline constexpr index_t chunk_rows = 256;

/// Rows of some heads in the order of `row`, cut into segments: segment s is row[offset[s]] to row[offset[s + 1] - 1].
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

template <class T, memory_space S>
row_segments<T> segments_of(const tensor_view<const T, S>& x, index_t segments, const std::int64_t* row,
                            const index_t* offset) {
  return {x.data, x.dim, x.heads, segments, x.row_stride, x.head_stride, row, offset};
}

/// Sums rows minus their segment's first row into sum(head, chunk, c); chunks have at most `chunk_rows` rows each.
template <class T>
struct chunk_sums_of_segments {
  row_segments<T> x;
  const index_t* first_chunk;  ///< (segments + 1)
  index_t chunks;
  double* sum;

  QKGEOM_HD void operator()(index_t i) const {
    const index_t c = i % x.dim, chunk = i / x.dim % chunks, head = i / (x.dim * chunks);
    const index_t s = place_in(first_chunk, x.segments, chunk);
    const index_t begin = x.offset[s] + (chunk - first_chunk[s]) * chunk_rows, stop = begin + chunk_rows;
    const index_t end = stop < x.offset[s + 1] ? stop : x.offset[s + 1];
    const double first = x.at(head, x.offset[s], c);
    double of_chunk = 0;
    for (index_t r = begin; r < end; ++r) of_chunk += x.at(head, r, c) - first;
    sum[i] = of_chunk;
  }
};

/// Computes mean(head, segment, c) from the sums of the segment's chunks; 0 for an empty segment. Lowers `non_finite`,
/// if given, to the first segment with a mean that is not finite.
template <class T>
struct segment_mean {
  row_segments<T> x;
  const index_t* first_chunk;
  index_t chunks;
  const double* sum;
  double* mean;
  unsigned long long* non_finite;

  QKGEOM_HD void operator()(index_t i) const {
    const index_t c = i % x.dim, s = i / x.dim % x.segments, head = i / (x.dim * x.segments);
    const index_t n = x.offset[s + 1] - x.offset[s];
    double of_segment = 0;
    for (index_t chunk = first_chunk[s]; chunk < first_chunk[s + 1]; ++chunk)
      of_segment += sum[(head * chunks + chunk) * x.dim + c];
    mean[i] = n > 0 ? x.at(head, x.offset[s], c) + of_segment / static_cast<double>(n) : 0.0;
    if (non_finite && !(mean[i] - mean[i] == 0)) tile::keep_least(non_finite, static_cast<unsigned long long>(s));
  }
};

/// Computes means of segments of rows. An item is a chunk and column, since there are few segments and some are large.
template <class Device>
class segment_averages {
 public:
  /// Takes a host copy of row_segments::offset.
  segment_averages(const Device& device, const std::vector<index_t>& offset)
      : first_chunk_(device.copy(chunks_of(offset))) {
    for (std::size_t s = 1; s < offset.size(); ++s) chunks_ += chunks_in(offset[s] - offset[s - 1]);
  }

  /// Returns means (heads, segments, d) of `heads` heads, taken about each segment's first row: constants stay exact.
  template <class T>
  typename Device::template buffer<double> operator()(const Device& device, const row_segments<T>& x, index_t heads,
                                                      unsigned long long* non_finite = nullptr) const {
    const auto sum = device.template make<double>(heads * chunks_ * x.dim);
    device.each(sum.size(), chunk_sums_of_segments<T>{x, first_chunk_.data(), chunks_, sum.data()});
    auto mean = device.template make<double>(heads * x.segments * x.dim);
    device.each(mean.size(), segment_mean<T>{x, first_chunk_.data(), chunks_, sum.data(), mean.data(), non_finite});
    return mean;
  }

 private:
  static index_t chunks_in(index_t rows) { return (rows + chunk_rows - 1) / chunk_rows; }
  static std::vector<index_t> chunks_of(const std::vector<index_t>& offset) {
    std::vector<index_t> first{0};
    for (std::size_t s = 1; s < offset.size(); ++s)
      first.push_back(first.back() + chunks_in(offset[s] - offset[s - 1]));
    return first;
  }

  typename Device::template buffer<index_t> first_chunk_;
  index_t chunks_ = 0;
};

/// Computes second moments of one head about its segments' means, among columns and between columns and position. There
/// are (segments, d, ceil(d / run)) items: an item is a run of columns of one row of the scatter.
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
    for (index_t from = x.offset[s]; from < x.offset[s + 1]; from += chunk_rows) {
      double chunk[run] = {}, chunk_t = 0;
      for (index_t r = from; r < x.offset[s + 1] && r < from + chunk_rows; ++r) {
        const double y = x.at(head, r, i) - mi;
        for (int k = 0; k < width; ++k) chunk[k] += y * (x.at(head, r, j0 + k) - m[j0 + k]);
        if (j0 == 0) chunk_t += y * (static_cast<double>(position[x.row[r]]) - t_mean[s]);
      }
      for (int k = 0; k < width; ++k) sum[k] += chunk[k];
      with_t += chunk_t;
    }
    for (int k = 0; k < width; ++k) scatter[(s * d + i) * d + j0 + k] = sum[k];
    if (j0 == 0) xt[s * d + i] = with_t;
  }
};

/// Rows by segment, and the means for their second moments.
template <class T>
struct segment_means {
  row_segments<T> rows;
  const std::vector<index_t>& offset;  ///< (segments + 1)
  const double* mean;                  ///< (heads, segments, d), on the device
  const std::vector<double>& t_mean;   ///< (segments)
  const std::int32_t* position;        ///< on the device
};

/// Layout of a head's second moments on the host: the scatter of all rows about their segments' means, upper triangle
/// by rows; then xt (d) of each segment; then the scatter of each segment but the last, as far as it is kept.
struct scatter_layout {
  index_t d, segments;
  scatter_kind kind;  ///< kept for each segment

  QKGEOM_HD index_t triangle() const { return d * (d + 1) / 2; }
  /// Returns the place of entry (i, j >= i) of an upper triangle.
  QKGEOM_HD index_t entry(index_t i, index_t j) const { return i * d - i * (i + 1) / 2 + j; }
  QKGEOM_HD index_t xt(index_t s) const { return triangle() + s * d; }
  QKGEOM_HD index_t of_segment(index_t s) const {
    return xt(segments) + s * (kind == scatter_kind::full ? triangle() : d);
  }
  QKGEOM_HD index_t values() const { return of_segment(segments - 1); }
};

/// Copies second moments (heads, segments, d, d) and (heads, segments, d) into that layout, with (heads, d, d) items.
struct pack_scatter {
  /// From one row of a segment to the next, and from one segment to the next.
  struct strides {
    index_t row, segment;
  };
  scatter_layout layout;
  const double *scatter, *with_t;
  strides of_scatter, of_t;  ///< heads follow one another
  double* to;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t d = layout.d, row_of_all = item / d, j = item - row_of_all * d, head = row_of_all / d;
    const index_t i = row_of_all - head * d;
    if (j < i) return;
    double* const out = to + head * layout.values();
    const double* const from = scatter + head * layout.segments * of_scatter.segment + i * of_scatter.row + j;
    double total = 0;
    for (index_t s = 0; s < layout.segments; ++s) {
      const double x = from[s * of_scatter.segment];
      total += x;
      if (i == j) out[layout.xt(s) + i] = with_t[(head * layout.segments + s) * of_t.segment + i * of_t.row];
      if (s + 1 == layout.segments) break;
      if (layout.kind == scatter_kind::full)
        out[layout.of_segment(s) + layout.entry(i, j)] = x;
      else if (i == j)
        out[layout.of_segment(s) + i] = x;
    }
    out[layout.entry(i, j)] = total;
  }
};

/// Computes second moments by loops, head by head. Calls each(first head, heads, values (heads, layout.values())).
struct scatter_by_loops {
  template <class Device, class T, class Each>
  void operator()(const Device& device, const segment_means<T>& about, const scatter_layout& layout,
                  const Each& each) const {
    const auto& rows = about.rows;
    const index_t d = rows.dim, segments = rows.segments,
                  runs = (d + segment_scatter<T>::run - 1) / segment_scatter<T>::run;
    const auto t_means = device.copy(about.t_mean);
    const auto scatter = device.template make<double>(segments * d * d);
    const auto xt = device.template make<double>(segments * d), packed = device.template make<double>(layout.values());
    for (index_t h = 0; h < rows.heads; ++h) {
      device.each(segments * d * runs, segment_scatter<T>{rows, h, about.mean + h * segments * d, t_means.data(),
                                                          about.position, scatter.data(), xt.data()});
      device.each(d * d, pack_scatter{layout, scatter.data(), xt.data(), {d, d * d}, {1, d}, packed.data()});
      each(h, index_t{1}, packed.host().data());
    }
  }
};

/// Returns the number of a (head, row) that holds a value that is not finite, else the largest index_t.
template <class T>
struct non_finite_row {
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

/// Rows in a stable order by bucket, as segments of `row_segments`; the last one holds the rows of bucket -1.
template <class Device>
struct sorted_rows {
  typename Device::template buffer<std::int64_t> row;
  std::vector<index_t> offset;

  sorted_rows(const Device& device, const std::vector<std::int32_t>& bucket, index_t buckets)
      : row(device.template make<std::int64_t>(static_cast<index_t>(bucket.size()))) {
    const auto n = static_cast<index_t>(bucket.size());
    std::vector<std::int32_t> slot(bucket);
    std::replace(slot.begin(), slot.end(), std::int32_t{-1}, static_cast<std::int32_t>(buckets));
    const auto key = device.copy(slot);
    const auto at = device.template make<index_t>(buckets + 2);
    thrust::sequence(device.policy, row.data(), row.data() + n);
    thrust::stable_sort_by_key(device.policy, key.data(), key.data() + n, row.data());
    thrust::lower_bound(device.policy, key.data(), key.data() + n, thrust::counting_iterator<std::int32_t>(0),
                        thrust::counting_iterator<std::int32_t>(static_cast<std::int32_t>(buckets) + 2), at.data());
    offset = at.host(buckets + 2);
  }
};

/// First moments of segments, on the host; tt is the sum of squares of positions about t_mean.
struct segment_facts {
  const std::vector<index_t>& offset;     ///< (segments + 1)
  const std::vector<double>& mean;        ///< (heads, segments, d)
  const std::vector<double>&t_mean, &tt;  ///< (segments)
};

/// Returns the symmetric matrix (d, d) whose upper triangle lies at `from` by rows.
inline std::vector<double> symmetric_of(const double* from, index_t d) {
  std::vector<double> x(d * d);
  for (index_t i = 0; i < d; from += d - i, ++i) std::copy(from, from + d - i, x.begin() + i * d + i);
  constexpr index_t side = 16;  // by squares, since a column takes a cache line per value
  for (index_t left = 0; left < d; left += side)
    for (index_t j = left; j < d; ++j)
      for (index_t i = left; i < std::min(left + side, j); ++i) x[j * d + i] = x[i * d + j];
  return x;
}

/// Returns a head's moments in one segment from its packed second moments; the scatter is 0 unless `scatter`.
inline row_moments segment_moments(const scatter_layout& layout, const segment_facts& facts, index_t head, index_t s,
                                   const double* from, bool scatter) {
  const index_t d = layout.d;
  const auto vector_at = [d](const double* at) { return std::vector<double>(at, at + d); };
  const bool full = scatter && layout.kind == scatter_kind::full;
  auto m = row_moments::zero(d, scatter_kind::diagonal);
  if (const index_t count = facts.offset[s + 1] - facts.offset[s]; count > 0)
    m = {count,
         facts.t_mean[s],
         facts.tt[s],
         vector_at(facts.mean.data() + (head * layout.segments + s) * d),
         vector_at(from + layout.xt(s)),
         {}};
  if (full)
    m.xx = symmetric_of(from + layout.of_segment(s), d);
  else
    m.xx = scatter ? vector_at(from + layout.of_segment(s)) : std::vector<double>(d);
  return m;
}

/// Returns the moments of all rows of a head: the packed scatter within segments plus the scatter of their means.
inline row_moments total_moments(const scatter_layout& layout, const segment_facts& facts, index_t head,
                                 const double* from) {
  const index_t d = layout.d;
  auto total = row_moments::zero(d, scatter_kind::diagonal);
  std::vector<row_moments> segments;
  for (index_t s = 0; s < layout.segments; ++s) {
    segments.push_back(segment_moments(layout, facts, head, s, from, false));
    merge(total, segments.back());
  }
  std::vector<double> triangle(from, from + layout.triangle()), dx(d);
  for (const auto& s : segments) {
    for (index_t i = 0; i < d; ++i) dx[i] = s.mean[i] - total.mean[i];
    double* to = triangle.data();
    for (index_t i = 0; i < d; to += d - i, ++i)
      for (index_t j = i; j < d; ++j) to[j - i] += static_cast<double>(s.count) * dx[i] * dx[j];
  }
  total.xx = symmetric_of(triangle.data(), d);
  return total;
}

/// See cpu_context::moments. Takes two passes: means about a first row, then second moments about the means by
/// `scatter_of`, for example scatter_by_loops.
template <class Device, class T, memory_space S, class Scatter, class ForEach>
std::vector<side_moments> moments(const Device& device, const Scatter& scatter_of, ForEach&& for_each, const char* side,
                                  const tensor_view<const T, S>& x, const vector_view<const std::int32_t, S>& position,
                                  const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
  const index_t d = x.dim, segments = buckets + 1;
  const sorted_rows<Device> order(device, bucket, buckets);
  const auto offset = device.copy(order.offset);
  const auto rows = segments_of(x, segments, order.row.data(), offset.data());
  const auto mean = segment_averages<Device>(device, order.offset)(device, rows, x.heads);
  const auto host_mean = mean.host();
  if (!std::all_of(host_mean.begin(), host_mean.end(), [](double v) { return std::isfinite(v); })) {
    const index_t bad = thrust::transform_reduce(
        device.policy, thrust::counting_iterator<index_t>(0), thrust::counting_iterator<index_t>(x.heads * x.rows),
        non_finite_row<T>{rows, x.rows}, std::numeric_limits<index_t>::max(), thrust::minimum<index_t>());
    require(bad >= x.heads * x.rows, side, " head ", bad / std::max<index_t>(1, x.rows), " row ",
            bad % std::max<index_t>(1, x.rows), " holds a value that is not finite");
  }
  // All heads share positions: their sums are made once, on the host.
  std::vector<std::int32_t> t(x.rows);
  if (x.rows > 0) device.memory.to_host(t.data(), position.data, t.size() * sizeof(std::int32_t));
  const auto host_row = order.row.host();
  std::vector<double> t_mean(segments), tt(segments);
  for (index_t s = 0; s < segments; ++s) {
    const auto begin = order.offset[s], end = order.offset[s + 1];
    for (auto i = begin; i < end; ++i) t_mean[s] += t[host_row[i]];
    t_mean[s] /= std::max(1.0, static_cast<double>(end - begin));
    for (auto i = begin; i < end; ++i) {
      const double y = t[host_row[i]] - t_mean[s];
      tt[s] += y * y;
    }
  }
  std::vector<side_moments> result(x.heads);
  for (auto& head : result) head.bucket.resize(buckets);
  const segment_means<T> about{rows, order.offset, mean.data(), t_mean, position.data};
  const scatter_layout layout{d, segments, per_bucket};
  const segment_facts facts{order.offset, host_mean, t_mean, tt};
  scatter_of(device, about, layout, [&](index_t first, index_t heads, const double* values) {
    for_each(heads * segments, [&](index_t item) {  // the last segment is no bucket
      const index_t of = item / segments, s = item % segments, head = first + of;
      const double* const from = values + of * layout.values();
      if (s + 1 < segments)
        result[head].bucket[s] = segment_moments(layout, facts, head, s, from, true);
      else
        result[head].total = total_moments(layout, facts, head, from);
    });
  });
  return result;
}

}  // namespace qkgeom::thrust_kernels
