// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
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
    z.assign(static_cast<std::size_t>(panels() * rank * panel), F{0});
    norm.assign(static_cast<std::size_t>(panels() * panel), F{0});
    score.assign(norm.size(), F{0});
  }
  /// Packs rows [begin, begin + count) of the scaled keys, `rows` (count, rank), row-major.
  void pack(index_t begin, index_t count, const F* rows) {
    for (index_t i = 0; i < count; ++i) {
      F* const to = z.data() + ((begin + i) / panel) * rank * panel + (begin + i) % panel;
      const F* const from = rows + i * rank;
      double square = 0;
      for (index_t c = 0; c < rank; ++c) {
        to[c * panel] = from[c];
        square += static_cast<double>(from[c]) * static_cast<double>(from[c]);
      }
      norm[static_cast<std::size_t>(begin + i)] = static_cast<F>(square);
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
  F plasticity[static_cast<std::size_t>(rows * panel)];
  bool cancelled = false;  ///< some pair's v is mostly rounding: `repair` it

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
    typename simd<F>::mask lost{};
    for (int half = 0; half < 2; ++half) {
      const index_t j = p * panel + half * L;
      const vec<F> nj = load(keys.norm.data() + j), sj = load(keys.score.data() + j);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const vec<F> n = nj + keys.norm[static_cast<std::size_t>(i + r)];
        const vec<F> v = n - g[r][half] * F{2};
        lost |= v <= n * static_cast<F>(0x1p-10);
        store(plasticity + r * panel + half * L, plasticity_lanes(sj - keys.score[static_cast<std::size_t>(i + r)], v));
      }
    }
    cancelled = false;
    for (int l = 0; l < L; ++l) cancelled |= lost[l] != 0;
  }

  /// Recomputes the pairs whose v cancelled, from the differences.
  void repair(const scaled_keys<F>& keys, index_t i, index_t p) {
    for (int r = 0; r < rows && i + r < keys.n; ++r)
      for (index_t j = p * panel; j < std::min(keys.n, (p + 1) * panel); ++j) {
        if (i + r == j) continue;
        const F *a = keys.at(i + r), *b = keys.at(j);
        double g = 0, v = 0;
        for (index_t c = 0; c < keys.rank; ++c) {
          const double x = a[c * panel], y = b[c * panel];
          g += x * y;
          v += (x - y) * (x - y);
        }
        const double n = static_cast<double>(keys.norm[static_cast<std::size_t>(i + r)]) + static_cast<double>(keys.norm[static_cast<std::size_t>(j)]);
        if (n - 2 * g > n * 0x1p-9) continue;
        const double m = static_cast<double>(keys.score[static_cast<std::size_t>(j)]) - static_cast<double>(keys.score[static_cast<std::size_t>(i + r)]);
        plasticity[static_cast<std::size_t>(r * panel + j % panel)] = static_cast<F>(pair_plasticity(m, v));
      }
  }
};

/// Sum over all pairs i < j of one group under one law, panels p = part, part + parts, ...; adds to `sink` where weights
/// or a heatmap are wanted.
template <class F>
void sum_tiles(const scaled_keys<F>& keys, index_t part, index_t parts, const score_law& law, index_t group, const rank_range& range,
               pair_sink& sink, double& sum, double& weight) {
  constexpr index_t panel = gram_tile<F>::panel;
  constexpr int rows = gram_tile<F>::rows, L = lanes<F>;
  gram_tile<F> tile;
  const bool simple = sink.simple();
  for (index_t p = part; p < keys.panels(); p += parts)
    for (index_t i = 0; i < std::min(keys.n, (p + 1) * panel); i += rows) {
      tile.compute(keys, i, p);
      if (tile.cancelled) tile.repair(keys, i, p);
      const bool inner = i + rows <= p * panel && (p + 1) * panel <= keys.n;
      if (inner && simple) {
        vec<F> s0{}, s1{};
        for (int r = 0; r < rows; ++r) {
          s0 += load(tile.plasticity + r * panel);
          s1 += load(tile.plasticity + r * panel + L);
        }
        s0 += s1;
        double s = 0;
        for (int l = 0; l < L; ++l) s += static_cast<double>(s0[l]);
        sum += s;
        continue;
      }
      for (int r = 0; r < rows; ++r)
        for (index_t j = std::max(p * panel, i + r + 1); j < std::min(keys.n, (p + 1) * panel); ++j) {
          const auto pp = static_cast<double>(tile.plasticity[r * panel + j % panel]);
          const double w = simple ? 1.0 : sink.add(law, group, range, range.begin + i + r, range.begin + j, pp);
          sum += w * pp;
          weight += w;
        }
    }
}

}  // namespace qkgeom::cpu
