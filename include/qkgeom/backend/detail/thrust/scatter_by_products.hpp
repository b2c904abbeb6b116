// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/backend/detail/thrust/side_moments.hpp"

namespace qkgeom::thrust_kernels {

/// Writes to out (heads, chunks, chunk_rows, d + 1) the rows of each chunk minus their segment's mean, with the centred
/// position as last column; 0 beyond a chunk's rows.
template <class T>
struct centred_chunks {
  row_segments<T> x;
  const double *mean, *t_mean;
  const std::int32_t* position;
  const index_t *first, *count, *segment;  ///< (chunks)
  index_t chunks, first_head;
  double* out;

  QKGEOM_HD void operator()(index_t item) const {
    constexpr index_t rows = chunk_rows;
    const index_t width = x.dim + 1, row = item / width, c = item - row * width, r = row % rows, of_head = row / rows;
    const index_t head = first_head + of_head / chunks, chunk = of_head % chunks, s = segment[chunk];
    double value = 0;
    if (r < count[chunk]) {
      const index_t i = first[chunk] + r;
      value = c < x.dim ? x.at(head, i, c) - mean[(head * x.segments + s) * x.dim + c]
                        : static_cast<double>(position[x.row[i]]) - t_mean[s];
    }
    out[item] = value;
  }
};

/// Writes to out (heads, segments, entries) the sum over each segment's chunks of products (heads, chunks, entries).
struct add_products {
  const double* products;
  const index_t* first_chunk;  ///< (segments + 1)
  index_t segments, chunks, entries;
  double* out;
  QKGEOM_HD void operator()(index_t item) const {
    const index_t e = item % entries, s = item / entries % segments, head = item / (entries * segments);
    double sum = 0;
    for (index_t c = first_chunk[s]; c < first_chunk[s + 1]; ++c) sum += products[(head * chunks + c) * entries + e];
    out[item] = sum;
  }
};

/// Second moments by batched f64 products over chunks of rows of several heads, which are added in a fixed order. The
/// device works on the next heads while the host takes earlier ones. The launcher has
///   multiply(batch, width, rows, x, products): products (batch, width, width) = x' x of each x (rows, width)
///   start_copy(slot, from, n): starts to copy n doubles to the host; slot is 0 or 1
///   copied(slot): waits for that copy; its values, which stay until the slot's next one
template <class Launcher>
struct scatter_by_products {
  Launcher launcher;

  template <class Device, class T, class Each>
  void operator()(const Device& device, const segment_means<T>& about, const scatter_layout& layout,
                  const Each& each) const {
    constexpr index_t most_values = index_t{1} << 27;
    const auto& x = about.rows;
    const index_t d = x.dim, width = d + 1, entries = width * width;
    std::vector<index_t> first, count, segment, first_chunk{0};
    for (index_t s = 0; s < x.segments; ++s) {
      const index_t end = about.offset[s + 1];
      for (index_t i = about.offset[s]; i < end; i += chunk_rows) {
        first.push_back(i);
        count.push_back(std::min(chunk_rows, end - i));
        segment.push_back(s);
      }
      first_chunk.push_back(static_cast<index_t>(first.size()));
    }
    const auto chunks = static_cast<index_t>(first.size());
    const auto on_first = device.copy(first), on_count = device.copy(count), on_segment = device.copy(segment),
               on_chunk = device.copy(first_chunk);
    const auto t_mean = device.copy(about.t_mean);
    const index_t values_per_head = chunks * (chunk_rows * width + entries),
                  fit = most_values / std::max<index_t>(1, values_per_head), quarter = (x.heads + 3) / 4,
                  together = std::max<index_t>(1, std::min(fit, quarter));
    const auto centred = device.template make<double>(together * chunks * chunk_rows * width);
    const auto products = device.template make<double>(together * chunks * entries);
    const auto sums = device.template make<double>(together * x.segments * entries),
               packed = device.template make<double>(together * layout.values());
    const auto start = [&](index_t h, index_t heads, int slot) {
      const index_t batch = heads * chunks;
      device.each(batch * chunk_rows * width,
                  centred_chunks<T>{x, about.mean, t_mean.data(), about.position, on_first.data(), on_count.data(),
                                    on_segment.data(), chunks, h, centred.data()});
      if (batch > 0) launcher.multiply(batch, width, chunk_rows, centred.data(), products.data());
      device.each(heads * x.segments * entries,
                  add_products{products.data(), on_chunk.data(), x.segments, chunks, entries, sums.data()});
      device.each(
          heads * d * d,
          pack_scatter{layout, sums.data(), sums.data() + d, {width, entries}, {width, entries}, packed.data()});
      launcher.start_copy(slot, packed.data(), heads * layout.values());
    };
    int slot = 0;
    for (index_t h = 0, heads = std::min(together, x.heads); h < x.heads; slot = 1 - slot) {
      if (h == 0) start(h, heads, slot);
      const index_t next = h + heads, more = std::min(together, x.heads - next);
      if (more > 0) start(next, more, 1 - slot);
      each(h, heads, launcher.copied(slot));
      h = next, heads = more;
    }
  }
};

}  // namespace qkgeom::thrust_kernels
