// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/tiles/math.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"

/// Keys in f64 into what the pair kernel reads.
namespace qkgeom::tile {

/// z of each distribution as it lies in memory, (distributions, n, width).
struct stored_keys {
  const double* z;
  index_t n;
  int width;
  QKGEOM_HD double along(index_t, index_t, int) const { return 0; }
  QKGEOM_HD double operator()(index_t distribution, index_t i, int c, double) const {
    return z[(distribution * n + i) * width + c];
  }
};
/// z of distributions with a diagonal covariance: columns of keys reflected by u, y - 2 (y . u) u, each distribution's
/// by factors of its own; 0 beyond d. The lanes of a warp add y . u up.
struct scaled_keys {
  const double *y, *reflector, *factor;  ///< (n, d); u (distributions, d); (distributions, d)
  int d;

  QKGEOM_HD double along(index_t distribution, index_t i, int lane) const {
    double sum = 0;
    for (int c = lane; c < d; c += 32) sum += y[i * d + c] * reflector[distribution * d + c];
    return sum;
  }
  QKGEOM_HD double operator()(index_t distribution, index_t i, int c, double along) const {
    return c < d ? factor[distribution * d + c] * (y[i * d + c] - 2 * along * reflector[distribution * d + c]) : 0.0;
  }
};

/// scale[distribution] = the power of two that brings |z|^2 of the distribution's first keys to order 1; one block a
/// distribution.
template <class Keys>
struct scale_program {
  static constexpr int threads = tile_threads, warps = threads / 32, blocks_a_processor = 2;
  Keys z;
  index_t n;
  int width;
  double* scale;

  index_t shared_bytes() const { return threads * static_cast<index_t>(sizeof(double)); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t distribution, unsigned char* shared) const {
    auto* const term = reinterpret_cast<double*>(shared);
    const index_t sampled = n < 256 ? n : 256;
    typename Team::template per_thread<double> sum, along;
    team.own([&](int t) { sum[t] = 0; });
    for (index_t first = 0; first < sampled; first += warps) {
      team.own(
          [&](int t) { along[t] = first + t / 32 < sampled ? z.along(distribution, first + t / 32, t % 32) : 0.0; });
      team.template sum_lanes<32>(along);
      team.own([&](int t) {
        const index_t i = first + t / 32;
        for (int c = t % 32; c < width && i < sampled; c += 32) {
          const double x = z(distribution, i, c, along[t]);
          sum[t] += x * x;
        }
      });
    }
    team.each([&](int t) { term[t] = sum[t]; });
    for (int step = threads / 2; step > 0; step /= 2)
      team.each([&](int t) {
        if (t < step) term[t] += term[t + step];
      });
    team.own([&](int t) {
      if (t == 0) scale[distribution] = backend::unit_scale(sampled > 0 ? term[0] / static_cast<double>(sampled) : 0.0);
    });
  }
};

/// Scaled keys as pairs of bf16, or one each, with the norm that their products have, and what of each key is one
/// number, its product with a row of a distribution. One warp a key of a distribution, so that no sum depends on what
/// else is launched.
template <class Keys>
struct split_program {
  static constexpr int threads = tile_threads, warps = threads / 32, blocks_a_processor = 4;
  Keys z;
  const double *scale, *y,
      *row;  ///< (distributions); (n, d); (numbers, distributions, d), numbers `distributions_in_all` rows apart
  index_t n, d, distributions, numbers, distributions_in_all;
  int width;
  bf16 *high, *low;      ///< (distributions, n, width); low: null for one bf16 each
  float *norm, *number;  ///< (distributions, n); (numbers, distributions, n), numbers `distributions_in_all` n apart

  index_t shared_bytes() const { return 0; }
  index_t blocks() const { return distributions * ((n + warps - 1) / warps); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char*) const {
    const index_t blocks_per_distribution = (n + warps - 1) / warps, distribution = block / blocks_per_distribution;
    const index_t first = (block - distribution * blocks_per_distribution) * warps;
    // f(key, its place among those of all distributions, lane) of the threads that have a key
    const auto each_key = [&](int t, const auto& f) {
      const index_t i = first + t / 32;
      if (i < n) f(i, distribution * n + i, t % 32);
    };
    typename Team::template per_thread<double> sum;
    typename Team::template per_thread<float> square;
    team.own([&](int t) {
      sum[t] = 0;
      each_key(t, [&](index_t i, index_t, int lane) { sum[t] = z.along(distribution, i, lane); });
    });
    team.template sum_lanes<32>(sum);
    team.own([&](int t) {
      square[t] = 0;
      each_key(t, [&](index_t i, index_t place, int lane) {
        for (int c = lane; c < width; c += 32) {
          const auto x = split_of(static_cast<float>(scale[distribution] * z(distribution, i, c, sum[t])));
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
          for (index_t c = lane; c < d; c += 32)
            sum[t] += row[(k * distributions_in_all + distribution) * d + c] * y[i * d + c];
        });
      });
      team.template sum_lanes<32>(sum);
      team.own([&](int t) {
        each_key(t, [&](index_t, index_t place, int lane) {
          if (lane == 0)
            number[k * distributions_in_all * n + place] = static_cast<float>(scale[distribution] * sum[t]);
        });
      });
    }
  }
};

}  // namespace qkgeom::tile
