// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/tile_math.hpp"
#include "qkgeom/backend/detail/tile_sums.hpp"

/// Keys in f64 into what the pair kernel reads.
namespace qkgeom::tile {

/// z of each law as it lies in memory, (laws, n, width).
struct stored_keys {
  const double* z;
  index_t n;
  int width;
  QKGEOM_HD double operator()(index_t law, index_t i, int c) const { return z[(law * n + i) * width + c]; }
};
/// z of laws with a diagonal covariance: columns of the same keys, each law's by factors of its own; 0 beyond d.
struct scaled_keys {
  const double *y, *factor;  ///< (n, d), (laws, d)
  int d;
  QKGEOM_HD double operator()(index_t law, index_t i, int c) const {
    return c < d ? factor[law * d + c] * y[i * d + c] : 0.0;
  }
};

/// scale[law] = the power of two that brings |z|^2 of the law's first keys to order 1; one block a law.
template <class Keys>
struct scale_program {
  static constexpr int threads = tile_threads, blocks_a_processor = 2;
  Keys z;
  index_t n;
  int width;
  double* scale;

  index_t shared_bytes() const { return threads * static_cast<index_t>(sizeof(double)); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t law, unsigned char* shared) const {
    auto* const part = reinterpret_cast<double*>(shared);
    const index_t sampled = n < 256 ? n : 256;
    team.each([&](int t) {
      double sum = 0;
      for (index_t i = t / 32; i < sampled; i += threads / 32)
        for (int c = t % 32; c < width; c += 32) {
          const double x = z(law, i, c);
          sum += x * x;
        }
      part[t] = sum;
    });
    for (int step = threads / 2; step > 0; step /= 2)
      team.each([&](int t) {
        if (t < step) part[t] += part[t + step];
      });
    team.own([&](int t) {
      if (t == 0) scale[law] = backend::unit_scale(sampled > 0 ? part[0] / static_cast<double>(sampled) : 0.0);
    });
  }
};

/// Scaled keys as pairs of bf16, or one each, with the norm that their products have, and what of each key is one
/// number: `numbers` of them (numbers, laws, n). One warp a key of a law.
template <class Keys>
struct split_program {
  static constexpr int threads = tile_threads, blocks_a_processor = 4;
  Keys z;
  const double *number, *scale;
  index_t n, laws, numbers;
  int width;
  bf16 *high, *low;  ///< low: null for one bf16 each
  float *norm, *scaled_number;
  index_t step;

  index_t shared_bytes() const { return 0; }
  index_t blocks() const { return (laws * n * 32 + threads - 1) / threads; }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char*) const {
    typename Team::template per_thread<float> sum;
    team.own([&](int t) {
      sum[t] = 0;
      const index_t item = (block * threads + t) / 32;
      if (item >= laws * n) return;
      const index_t law = item / n;
      const double s = scale[law];
      for (int c = t % 32; c < width; c += 32) {
        const index_t at = item * width + c;
        const auto x = split_of(static_cast<float>(s * z(law, item - law * n, c)));
        high[at] = x.high;
        const float h = x.high;
        sum[t] += low ? split_square(x) : h * h;
        if (low) low[at] = x.low;
      }
    });
    team.template sum_lanes<32>(sum);
    team.own([&](int t) {
      const index_t item = (block * threads + t) / 32;
      if (item >= laws * n) return;
      if (t % 32 == 0) norm[item] = sum[t];
      for (index_t i = t % 32; i < numbers; i += 32)
        scaled_number[i * step + item] = static_cast<float>(scale[item / n] * number[i * laws * n + item]);
    });
  }
};

}  // namespace qkgeom::tile
