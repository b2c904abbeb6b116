// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/tiles/math.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"

/// Keys in f64 into what the pair kernel reads.
namespace qkgeom::tile {

/// z of each law as it lies in memory, (laws, n, width).
struct stored_keys {
  const double* z;
  index_t n;
  int width;
  QKGEOM_HD double along(index_t, index_t, int) const { return 0; }
  QKGEOM_HD double operator()(index_t law, index_t i, int c, double) const { return z[(law * n + i) * width + c]; }
};
/// z of laws with a diagonal covariance: columns of keys reflected by u, y - 2 (y . u) u, each law's by factors of its
/// own; 0 beyond d. The lanes of a warp add y . u up.
struct scaled_keys {
  const double *y, *reflector, *factor;  ///< (n, d); u (laws, d); (laws, d)
  int d;

  QKGEOM_HD double along(index_t law, index_t i, int lane) const {
    double sum = 0;
    for (int c = lane; c < d; c += 32) sum += y[i * d + c] * reflector[law * d + c];
    return sum;
  }
  QKGEOM_HD double operator()(index_t law, index_t i, int c, double along) const {
    return c < d ? factor[law * d + c] * (y[i * d + c] - 2 * along * reflector[law * d + c]) : 0.0;
  }
};

/// scale[law] = the power of two that brings |z|^2 of the law's first keys to order 1; one block a law.
template <class Keys>
struct scale_program {
  static constexpr int threads = tile_threads, warps = threads / 32, blocks_a_processor = 2;
  Keys z;
  index_t n;
  int width;
  double* scale;

  index_t shared_bytes() const { return threads * static_cast<index_t>(sizeof(double)); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t law, unsigned char* shared) const {
    auto* const part = reinterpret_cast<double*>(shared);
    const index_t sampled = n < 256 ? n : 256;
    typename Team::template per_thread<double> sum, along;
    team.own([&](int t) { sum[t] = 0; });
    for (index_t first = 0; first < sampled; first += warps) {
      team.own([&](int t) { along[t] = first + t / 32 < sampled ? z.along(law, first + t / 32, t % 32) : 0.0; });
      team.template sum_lanes<32>(along);
      team.own([&](int t) {
        const index_t i = first + t / 32;
        for (int c = t % 32; c < width && i < sampled; c += 32) {
          const double x = z(law, i, c, along[t]);
          sum[t] += x * x;
        }
      });
    }
    team.each([&](int t) { part[t] = sum[t]; });
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
/// number, its product with a row of a law. One warp a key of a law, so that no sum depends on what else is launched.
template <class Keys>
struct split_program {
  static constexpr int threads = tile_threads, warps = threads / 32, blocks_a_processor = 4;
  Keys z;
  const double *scale, *y, *row;  ///< (laws); (n, d); (numbers, laws, d), numbers `laws_in_all` rows apart
  index_t n, d, laws, numbers, laws_in_all;
  int width;
  bf16 *high, *low;      ///< (laws, n, width); low: null for one bf16 each
  float *norm, *number;  ///< (laws, n); (numbers, laws, n), numbers `laws_in_all` n apart

  index_t shared_bytes() const { return 0; }
  index_t blocks() const { return laws * ((n + warps - 1) / warps); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char*) const {
    const index_t blocks_a_law = (n + warps - 1) / warps, law = block / blocks_a_law;
    const index_t first = (block - law * blocks_a_law) * warps;
    // f(key, its place among those of all laws, lane) of the threads that have a key
    const auto each_key = [&](int t, const auto& f) {
      const index_t i = first + t / 32;
      if (i < n) f(i, law * n + i, t % 32);
    };
    typename Team::template per_thread<double> sum;
    typename Team::template per_thread<float> square;
    team.own([&](int t) {
      sum[t] = 0;
      each_key(t, [&](index_t i, index_t, int lane) { sum[t] = z.along(law, i, lane); });
    });
    team.template sum_lanes<32>(sum);
    team.own([&](int t) {
      square[t] = 0;
      each_key(t, [&](index_t i, index_t place, int lane) {
        for (int c = lane; c < width; c += 32) {
          const auto x = split_of(static_cast<float>(scale[law] * z(law, i, c, sum[t])));
          high[place * width + c] = x.high;
          const float h = x.high;
          square[t] += low ? split_square(x) : h * h;
          if (low) low[place * width + c] = x.low;
        }
      });
    });
    team.template sum_lanes<32>(square);
    team.own([&](int t) {
      each_key(t, [&](index_t, index_t place, int lane) {
        if (lane == 0) norm[place] = square[t];
      });
    });
    for (index_t k = 0; k < numbers; ++k) {
      team.own([&](int t) {
        sum[t] = 0;
        each_key(t, [&](index_t i, index_t, int lane) {
          for (index_t c = lane; c < d; c += 32) sum[t] += row[(k * laws_in_all + law) * d + c] * y[i * d + c];
        });
      });
      team.template sum_lanes<32>(sum);
      team.own([&](int t) {
        each_key(t, [&](index_t, index_t place, int lane) {
          if (lane == 0) number[k * laws_in_all * n + place] = static_cast<float>(scale[law] * sum[t]);
        });
      });
    }
  }
};

}  // namespace qkgeom::tile
