// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/tiles/math.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"

/// Programs that make the pair kernel's operands from keys in f64.
namespace qkgeom::tile {

/// z of each query bucket, from memory.
struct stored_keys {
  const double* z;  ///< (buckets, n, width)
  index_t n;
  int width;

  /// Keys from a first key on, under one bucket.
  struct keys_of_bucket {
    const double* z;
    int columns;
    QKGEOM_HD const double* row(int i) const { return z + i * columns; }
    QKGEOM_HD double along(const double*, int) const { return 0; }
    QKGEOM_HD double operator()(const double* row, int c, double) const { return row[c]; }
  };
  QKGEOM_HD keys_of_bucket of(index_t bucket, index_t first) const { return {z + (bucket * n + first) * width, width}; }
};
/// Centred keys of some key heads, and which of these heads a query bucket reads.
struct centred_keys {
  const double* y;      ///< (heads, n, d)
  const index_t* head;  ///< (buckets)
  index_t n;
  int d;
  /// Returns key i, (d).
  QKGEOM_HD const double* at(index_t bucket, index_t i) const { return y + (head[bucket] * n + i) * d; }
};

/// z of each query bucket under a diagonal covariance: keys y reflected by u, y - 2 (y . u) u, times a factor per
/// column. The lanes of a warp add up y . u, `along`.
struct scaled_keys {
  centred_keys keys;
  const double *reflector, *factor;  ///< u (buckets, d); (buckets, d)

  /// Keys from a first key on, under one bucket.
  struct keys_of_bucket {
    const double *y, *reflector, *factor;
    int columns;
    QKGEOM_HD const double* row(int i) const { return y + i * columns; }
    QKGEOM_HD double along(const double* row, int lane) const {
      double sum = 0;
      for (int c = lane; c < columns; c += 32) sum += row[c] * reflector[c];
      return sum;
    }
    QKGEOM_HD double operator()(const double* row, int c, double along) const {
      return factor[c] * (row[c] - 2 * along * reflector[c]);
    }
  };
  QKGEOM_HD keys_of_bucket of(index_t bucket, index_t first) const {
    return {keys.at(bucket, first), reflector + bucket * keys.d, factor + bucket * keys.d, keys.d};
  }
};

/// Sets scale[bucket] to the power of two that brings |z|^2 of the first 256 keys to order 1, one block per bucket.
template <class Keys>
struct scale_program {
  static constexpr int threads = tile_threads, warps = threads / 32, blocks_per_processor = 2;
  Keys z;
  index_t n;
  double* scale;

  index_t shared_bytes() const { return threads * static_cast<index_t>(sizeof(double)); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t bucket, unsigned char* shared) const {
    auto* const sums = reinterpret_cast<double*>(shared);
    const int sampled = n < 256 ? static_cast<int>(n) : 256;
    const auto mine = z.of(bucket, 0);
    typename Team::template per_thread<double> sum, along;
    team.each([&](int t) { sum[t] = 0; });
    for (int first = 0; first < sampled; first += warps) {
      team.each(
          [&](int t) { along[t] = first + t / 32 < sampled ? mine.along(mine.row(first + t / 32), t % 32) : 0.0; });
      team.template sum_lanes<32>(along);
      team.each([&](int t) {
        const int i = first + t / 32;
        for (int c = t % 32; c < mine.columns && i < sampled; c += 32) {
          const double x = mine(mine.row(i), c, along[t]);
          sum[t] += x * x;
        }
      });
    }
    team.each_then_wait([&](int t) { sums[t] = sum[t]; });
    for (int step = threads / 2; step > 0; step /= 2)
      team.each_then_wait([&](int t) {
        if (t < step) sums[t] += sums[t + step];
      });
    team.each([&](int t) {
      if (t == 0) scale[bucket] = backend::unit_scale(sampled > 0 ? sums[0] / static_cast<double>(sampled) : 0.0);
    });
  }
};

/// Splits scaled keys into two bf16 per value, or rounds them to one, with their norms and, for each key, the scalars
/// key . row. A warp takes a few keys under one bucket, so that it waits for several loads at once; no sum depends on
/// the other keys or on the rest of the launch.
template <class Keys>
struct split_program {
  static constexpr int threads = tile_threads, warp_keys = 4, block_keys = threads / 32 * warp_keys,
                       blocks_per_processor = 4;
  Keys z;
  const double* scale;  ///< (buckets)
  centred_keys keys;
  const double* row;  ///< (scalars, launch_buckets, d)
  index_t n, buckets, scalars;
  index_t launch_buckets;  ///< buckets of the whole launch; pointers lead to the first of these `buckets`
  int width;
  bf16 *high, *low;      ///< (buckets, n, width); low is null for one bf16 per value
  float *norm, *scalar;  ///< (buckets, n); (scalars, launch_buckets, n)

  index_t shared_bytes() const { return 0; }
  QKGEOM_HD index_t blocks_per_bucket() const { return (n + block_keys - 1) / block_keys; }
  index_t blocks() const { return buckets * blocks_per_bucket(); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char*) const {
    const index_t bucket = block / blocks_per_bucket(), first = (block - bucket * blocks_per_bucket()) * block_keys,
                  place = bucket * n + first;
    const int rows = n - first < block_keys ? static_cast<int>(n - first) : block_keys, d = keys.d;
    const auto mine = z.of(bucket, first);
    const double* const y = keys.at(bucket, first);
    const double unit = scale[bucket];
    // Row k of thread t's warp; the last row again beyond it.
    const auto number = [](int t, int k) { return t / 32 * warp_keys + k; };
    const auto row_at = [=](int t, int k) { return number(t, k) < rows ? number(t, k) : rows - 1; };
    // Lane 0 sets to[row k] to x(k).
    const auto set = [=](int t, float* to, const auto& x) {
      if (t % 32 != 0) return;
      QKGEOM_UNROLL
      for (int k = 0; k < warp_keys; ++k)
        if (number(t, k) < rows) to[number(t, k)] = static_cast<float>(x(k));
    };
    typename Team::template per_thread<double> sum[warp_keys];
    typename Team::template per_thread<float> square[warp_keys];
    const auto sum_up = [&](auto& x) {
      QKGEOM_UNROLL
      for (int k = 0; k < warp_keys; ++k) team.template sum_lanes<32>(x[k]);
    };
    team.each([&](int t) {
      QKGEOM_UNROLL
      for (int k = 0; k < warp_keys; ++k) {
        sum[k][t] = mine.along(mine.row(row_at(t, k)), t % 32);
        square[k][t] = 0;
      }
    });
    sum_up(sum);
    team.each([&](int t) {
      const double* from[warp_keys];
      QKGEOM_UNROLL
      for (int k = 0; k < warp_keys; ++k) from[k] = mine.row(row_at(t, k));
      const index_t to = (place + number(t, 0)) * width;
      const int there = rows - number(t, 0);
      for (int c = t % 32; c < width; c += 32) {
        split x[warp_keys] = {};  // 0 beyond the last column
        if (c < mine.columns) {
          QKGEOM_UNROLL
          for (int k = 0; k < warp_keys; ++k)  // before any is stored, so that shared values are read once
            x[k] = split_of(static_cast<float>(unit * mine(from[k], c, sum[k][t])));
        }
        QKGEOM_UNROLL
        for (int k = 0; k < warp_keys; ++k) {
          const float h = x[k].high;
          square[k][t] += low ? split_square(x[k]) : h * h;
          if (k >= there) continue;
          high[to + (k * width + c)] = x[k].high;
          if (low) low[to + (k * width + c)] = x[k].low;
        }
      }
    });
    sum_up(square);
    team.each([&](int t) { set(t, norm + place, [&](int k) { return square[k][t]; }); });
    for (index_t s = 0; s < scalars; ++s) {
      const double* const x = row + (s * launch_buckets + bucket) * d;
      team.each([&](int t) {
        const double* from[warp_keys];
        QKGEOM_UNROLL
        for (int k = 0; k < warp_keys; ++k) {
          from[k] = y + row_at(t, k) * d;
          sum[k][t] = 0;
        }
        for (int c = t % 32; c < d; c += 32) {
          QKGEOM_UNROLL
          for (int k = 0; k < warp_keys; ++k) sum[k][t] += x[c] * from[k][c];
        }
      });
      sum_up(sum);
      team.each(
          [&](int t) { set(t, scalar + s * launch_buckets * n + place, [&](int k) { return unit * sum[k][t]; }); });
    }
  }
};

}  // namespace qkgeom::tile
