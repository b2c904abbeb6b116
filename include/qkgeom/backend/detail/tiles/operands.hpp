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
  QKGEOM_HD double along(index_t, index_t, int) const { return 0; }
  QKGEOM_HD double operator()(index_t bucket, index_t i, int c, double) const {
    return z[(bucket * n + i) * width + c];
  }
};
/// Centred keys of some key heads, and which of these heads a query bucket reads.
struct centred_keys {
  const double* y;      ///< (heads, n, d)
  const index_t* head;  ///< (buckets)
  index_t n;
  int d;
  /// Key i, (d).
  QKGEOM_HD const double* at(index_t bucket, index_t i) const { return y + (head[bucket] * n + i) * d; }
};

/// z of each query bucket under a diagonal covariance: keys y reflected by u, y - 2 (y . u) u, times a factor per
/// column; 0 beyond d. The lanes of a warp add up y . u, `along`.
struct scaled_keys {
  centred_keys keys;
  const double *reflector, *factor;  ///< u (buckets, d); (buckets, d)

  QKGEOM_HD double along(index_t bucket, index_t i, int lane) const {
    const double* const y = keys.at(bucket, i);
    double sum = 0;
    for (int c = lane; c < keys.d; c += 32) sum += y[c] * reflector[bucket * keys.d + c];
    return sum;
  }
  QKGEOM_HD double operator()(index_t bucket, index_t i, int c, double along) const {
    const int d = keys.d;
    return c < d ? factor[bucket * d + c] * (keys.at(bucket, i)[c] - 2 * along * reflector[bucket * d + c]) : 0.0;
  }
};

/// scale[bucket] = the power of two that brings |z|^2 of the first 256 keys to order 1. A block is one bucket.
template <class Keys>
struct scale_program {
  static constexpr int threads = tile_threads, warps = threads / 32, blocks_per_processor = 2;
  Keys z;
  index_t n;
  int width;
  double* scale;

  index_t shared_bytes() const { return threads * static_cast<index_t>(sizeof(double)); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t bucket, unsigned char* shared) const {
    auto* const sums = reinterpret_cast<double*>(shared);
    const index_t sampled = n < 256 ? n : 256;
    typename Team::template per_thread<double> sum, along;
    team.each([&](int t) { sum[t] = 0; });
    for (index_t first = 0; first < sampled; first += warps) {
      team.each([&](int t) { along[t] = first + t / 32 < sampled ? z.along(bucket, first + t / 32, t % 32) : 0.0; });
      team.template sum_lanes<32>(along);
      team.each([&](int t) {
        const index_t i = first + t / 32;
        for (int c = t % 32; c < width && i < sampled; c += 32) {
          const double x = z(bucket, i, c, along[t]);
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
/// key . row. A warp takes one key under one bucket, so that no sum depends on the rest of the launch.
template <class Keys>
struct split_program {
  static constexpr int threads = tile_threads, warps = threads / 32, blocks_per_processor = 4;
  Keys z;
  const double* scale;  ///< (buckets)
  centred_keys keys;
  const double* row;  ///< (scalars, launch_buckets, d)
  index_t n, buckets, scalars;
  index_t launch_buckets;  ///< of the whole launch; pointers lead to the first of these `buckets`
  int width;
  bf16 *high, *low;      ///< (buckets, n, width); low: null for one bf16 per value
  float *norm, *scalar;  ///< (buckets, n); (scalars, launch_buckets, n)

  index_t shared_bytes() const { return 0; }
  index_t blocks() const { return buckets * ((n + warps - 1) / warps); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char*) const {
    const index_t blocks_per_bucket = (n + warps - 1) / warps, bucket = block / blocks_per_bucket;
    const index_t first = (block - bucket * blocks_per_bucket) * warps;
    // f(key, bucket * n + key, lane) for threads that have a key
    const auto each_key = [&](int t, const auto& f) {
      const index_t i = first + t / 32;
      if (i < n) f(i, bucket * n + i, t % 32);
    };
    typename Team::template per_thread<double> sum;
    typename Team::template per_thread<float> square;
    team.each([&](int t) {
      sum[t] = 0;
      each_key(t, [&](index_t i, index_t, int lane) { sum[t] = z.along(bucket, i, lane); });
    });
    team.template sum_lanes<32>(sum);
    team.each([&](int t) {
      square[t] = 0;
      each_key(t, [&](index_t i, index_t place, int lane) {
        for (int c = lane; c < width; c += 32) {
          const auto x = split_of(static_cast<float>(scale[bucket] * z(bucket, i, c, sum[t])));
          high[place * width + c] = x.high;
          const float h = x.high;
          square[t] += low ? split_square(x) : h * h;
          if (low) low[place * width + c] = x.low;
        }
      });
    });
    team.template sum_lanes<32>(square);
    team.each([&](int t) {
      each_key(t, [&](index_t, index_t place, int lane) {
        if (lane == 0) norm[place] = square[t];
      });
    });
    for (index_t k = 0; k < scalars; ++k) {
      team.each([&](int t) {
        sum[t] = 0;
        each_key(t, [&](index_t i, index_t, int lane) {
          const double *const y = keys.at(bucket, i), *const x = row + (k * launch_buckets + bucket) * keys.d;
          for (int c = lane; c < keys.d; c += 32) sum[t] += x[c] * y[c];
        });
      });
      team.template sum_lanes<32>(sum);
      team.each([&](int t) {
        each_key(t, [&](index_t, index_t place, int lane) {
          if (lane == 0) scalar[k * launch_buckets * n + place] = static_cast<float>(scale[bucket] * sum[t]);
        });
      });
    }
  }
};

}  // namespace qkgeom::tile
