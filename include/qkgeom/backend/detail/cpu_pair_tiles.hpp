// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "qkgeom/backend/detail/cpu_pair_math.hpp"
#include "qkgeom/backend/detail/cpu_pair_prepare.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

/// Keys of one group under one law, scaled so that v_ij = |z_i - z_j|^2: panels of `panel` keys, coordinate-major, so
/// that one panel feeds both sides of the Gram tile.
template <class F>
struct scaled_keys {
  static constexpr index_t panel = 2 * lanes<F>;
  index_t n = 0, rank = 0;
  std::vector<F> z;      ///< (panels, rank, panel)
  std::vector<F> norm;   ///< (padded n) |z_i|^2
  std::vector<F> score;  ///< (padded n) mean . k_i

  index_t panels() const { return (n + panel - 1) / panel; }
  const F* at(index_t key) const { return z.data() + (key / panel) * rank * panel + key % panel; }

  void resize(index_t keys, index_t r) {
    n = keys;
    rank = r;
    z.resize(static_cast<std::size_t>(panels() * rank * panel));
    if (n % panel != 0) std::fill(z.end() - rank * panel, z.end(), F{0});
    norm.assign(static_cast<std::size_t>(panels() * panel), F{0});
    score.assign(norm.size(), F{0});
  }
  /// Packs rows [begin, begin + count) of the scaled keys, `rows` (count, rank), row-major; begin is a multiple of
  /// `panel`.
  void pack(index_t begin, index_t count, const F* rows) {
    for (index_t first = begin; first < begin + count; first += panel) {
      F* const to = z.data() + first / panel * rank * panel;
      const index_t width = std::min(panel, begin + count - first);
      for (index_t i = 0; i < width; ++i, rows += rank)
        for (index_t c = 0; c < rank; ++c) to[c * panel + i] = rows[c];
      double square[panel] = {};
      for (index_t c = 0; c < rank; ++c)
        for (index_t i = 0; i < panel; ++i) {
          const auto x = static_cast<double>(to[c * panel + i]);
          square[i] += x * x;
        }
      for (index_t i = 0; i < width; ++i) norm[static_cast<std::size_t>(first + i)] = static_cast<F>(square[i]);
    }
  }
};

/// Plasticity of tiles of key pairs from their Gram matrix: the GEMM's sums stay in registers, the epilogue follows.
template <class F>
struct gram_tile {
  static constexpr index_t panel = scaled_keys<F>::panel;
#if defined(__AVX512F__)
  static constexpr int rows = 8;
#else
  static constexpr int rows = 4;
#endif
  F plasticity[static_cast<std::size_t>(rows * panel)];  ///< NaN where v is mostly rounding, until `repair`
  vec<F> sum;                                            ///< over the tile, lane by lane

  /// Pairs (i .. i + rows - 1) x (panel p).
  void compute(const scaled_keys<F>& keys, index_t i, index_t p) {
    constexpr int L = lanes<F>;
    const index_t rank = keys.rank;
    const F* a = keys.at(i);
    const F* b = keys.z.data() + p * rank * panel;
    vec<F> g[rows][2] = {};
    for (index_t c = 0; c < rank; ++c, a += panel, b += panel) {
      const vec<F> b0 = load(b), b1 = load(b + L);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        g[r][0] += b0 * a[r];
        g[r][1] += b1 * a[r];
      }
    }
    const vec<F> nan = splat(std::numeric_limits<F>::quiet_NaN());
    vec<F> partial[2] = {};
    for (int half = 0; half < 2; ++half) {
      const index_t j = p * panel + half * L;
      const vec<F> nj = load(keys.norm.data() + j), sj = load(keys.score.data() + j);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const vec<F> n = nj + keys.norm[static_cast<std::size_t>(i + r)];
        const vec<F> v = n - g[r][half] * F{2};
        const vec<F> pp = plasticity_lanes(sj - keys.score[static_cast<std::size_t>(i + r)], v);
        const vec<F> kept = v > n * static_cast<F>(0x1p-10) ? pp : nan;
        store(plasticity + r * panel + half * L, kept);
        partial[half] += kept;
      }
    }
    sum = partial[0] + partial[1];
  }

  /// `sum` once more, after `repair`.
  void sum_again() {
    sum = vec<F>{};
    for (int at = 0; at < rows * panel; at += lanes<F>) sum += load(plasticity + at);
  }

  /// Recomputes the pairs whose v cancelled, from the differences.
  void repair(const scaled_keys<F>& keys, index_t i, index_t p) {
    for (int r = 0; r < rows && i + r < keys.n; ++r)
      for (index_t j = std::max(p * panel, i + r + 1); j < std::min(keys.n, (p + 1) * panel); ++j) {
        F& value = plasticity[static_cast<std::size_t>(r * panel + j % panel)];
        if (!std::isnan(value)) continue;
        const F *a = keys.at(i + r), *b = keys.at(j);
        double v = 0;
        for (index_t c = 0; c < keys.rank; ++c) {
          const double x = static_cast<double>(a[c * panel]) - static_cast<double>(b[c * panel]);
          v += x * x;
        }
        value = static_cast<F>(pair_plasticity(static_cast<double>(keys.score[static_cast<std::size_t>(j)]) -
                                                   static_cast<double>(keys.score[static_cast<std::size_t>(i + r)]),
                                               v));
      }
  }
};

/// Sum over all pairs i < j of one group under one law whose panel of j is p = part, part + parts, ...; blocks of i
/// stay in the second-level cache while the panels pass. Adds to `sink` where weights or a heatmap are wanted.
template <class F>
void sum_tiles(const scaled_keys<F>& keys, index_t part, index_t parts, const score_law& law, index_t group,
               const rank_range& range, pair_sink& sink, double& sum_out, double& weight_out) {
  constexpr index_t panel = gram_tile<F>::panel, block = 16 * panel;
  constexpr int rows = gram_tile<F>::rows;
  gram_tile<F> tile;
  lane_sums<F> whole_tiles;
  double sum = 0, weight = 0;  // written out once: neighbours in memory belong to other threads
  const bool simple = sink.simple();
  const auto add_pair = [&](index_t i, index_t j, double pp) {
    const double w = sink.weight(range, i, j);
    sink.add_heat(sink.place(group, i, j), law, pp, w);
    weight += w;
    return w * pp;
  };
  const auto add_tile = [&](index_t i, index_t p) {
    tile.compute(keys, i, p);
    if (simple && i + rows <= p * panel && (p + 1) * panel <= keys.n) {
      if (any_nan<F>(tile.sum)) {
        tile.repair(keys, i, p);
        tile.sum_again();
      }
      whole_tiles.add(tile.sum);
      return;
    }
    tile.repair(keys, i, p);
    for (int r = 0; r < rows; ++r)
      for (index_t j = std::max(p * panel, i + r + 1); j < std::min(keys.n, (p + 1) * panel); ++j) {
        const auto pp = static_cast<double>(tile.plasticity[r * panel + j % panel]);
        sum += simple ? pp : add_pair(range.begin + i + r, range.begin + j, pp);
      }
  };
  for (index_t from = 0; from < keys.n; from += block)
    for (index_t p = part; p < keys.panels(); p += parts)
      for (index_t i = from; i < std::min({keys.n, from + block, (p + 1) * panel}); i += rows) add_tile(i, p);
  sum_out = sum + whole_tiles.value();
  weight_out = weight;
}

}  // namespace qkgeom::cpu
