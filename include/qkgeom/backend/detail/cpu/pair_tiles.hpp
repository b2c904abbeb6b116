// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

/// Keys of one group under one query bucket, scaled so that v_ij = |z_i - z_j|^2, in coordinate-major panels of `panel`
/// keys, so that a panel serves both sides of a Gram matrix.
template <class F>
struct scaled_keys {
#if defined(__AVX512F__)
  static constexpr int vectors = 3;
#else
  static constexpr int vectors = 2;
#endif
  static constexpr index_t panel = vectors * lanes<F>;
  index_t n = 0, rank = 0;
  aligned_vector<F> z;      ///< (panels, rank, panel)
  aligned_vector<F> norm;   ///< (padded n) |z_i|^2
  aligned_vector<F> score;  ///< (padded n) mean . k_i

  index_t panels() const { return (n + panel - 1) / panel; }
  const F* at(index_t key) const { return z.data() + (key / panel) * rank * panel + key % panel; }

  void resize(index_t keys, index_t r) {
    n = keys;
    rank = r;
    z.resize(panels() * rank * panel);
    if (n % panel != 0) std::fill(z.end() - rank * panel, z.end(), F{0});
    norm.assign(panels() * panel, F{0});
    score.assign(norm.size(), F{0});
  }
  /// Packs keys [begin, begin + count) from rows (count, rank) times scale (rank); begin is a multiple of `panel`.
  void pack(index_t begin, index_t count, const F* rows, const F* scale) {
    for (index_t first = begin; first < begin + count; first += panel, rows += panel * rank) {
      F* const to = z.data() + first / panel * rank * panel;
      const index_t width = std::min(panel, begin + count - first);
      const index_t fours = width / 4 * 4, columns = rank / 4 * 4;
      for (index_t i = 0; i < fours; i += 4)
        for (index_t c = 0; c < columns; c += 4) pack_square(rows + i * rank + c, scale + c, to + c * panel + i);
      for (index_t i = 0; i < width; ++i)
        for (index_t c = i < fours ? columns : 0; c < rank; ++c) to[c * panel + i] = rows[i * rank + c] * scale[c];
      double square[panel] = {};
      for (index_t c = 0; c < rank; ++c)
        for (index_t i = 0; i < panel; ++i) {
          const auto x = static_cast<double>(to[c * panel + i]);
          square[i] += x * x;
        }
      for (index_t i = 0; i < width; ++i) norm[first + i] = static_cast<F>(square[i]);
    }
  }

 private:
  /// Transposes four rows by four columns; element by element this takes four times the stores.
  void pack_square(const F* from, const F* scale, F* to) const {
    typedef F four __attribute__((vector_size(4 * sizeof(F))));
    four s, a[4];
    std::memcpy(&s, scale, sizeof s);
    for (int i = 0; i < 4; ++i) {
      std::memcpy(&a[i], from + i * rank, sizeof s);
      a[i] *= s;
    }
    const four low01 = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5),
               low23 = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
    const four high01 = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7),
               high23 = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
    const four columns[4] = {
        __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
        __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
    for (int c = 0; c < 4; ++c) std::memcpy(to + c * panel, &columns[c], sizeof s);
  }
};

/// Plasticity of a pair tile, keys i to i + rows - 1 with panel p, from its Gram matrix, whose sums stay in registers.
template <class F>
struct gram_tile {
  static constexpr index_t panel = scaled_keys<F>::panel;
  static constexpr int vectors = scaled_keys<F>::vectors;
#if defined(__AVX512F__)
  static constexpr int rows = 8;
#else
  static constexpr int rows = 4;
#endif
  /// If v is below this share of |z_i|^2 + |z_j|^2, it is mostly rounding.
  static constexpr F cancelled = static_cast<F>(0x1p-10);
  alignas(64) F plasticity[rows * panel];
  vec<F> sum;  ///< over the tile, lane by lane

  /// Sets `sum`, and if `each` also `plasticity`, of a tile whose keys all form pairs. Returns false if some v has
  /// cancelled or is 0; the values are then wrong.
  template <bool each>
  bool add_up(const scaled_keys<F>& keys, index_t i, index_t p) {
    vec<F> least = splat(F{1}), partial[vectors] = {};
    for_each_vector(keys, i, p, [&](int r, int k, const vec<F>& n, const vec<F>& v, const vec<F>& m) {
      least = smaller(least, v - n * cancelled);
      const vec<F> pp = plasticity_lanes(m, v);
      if constexpr (each) store(plasticity + r * panel + k * lanes<F>, pp);
      partial[k] += pp;
    });
    sum = partial[0];
    for (int k = 1; k < vectors; ++k) sum += partial[k];
    return !any_negative<F>(least - least_v<F>);
  }

  /// Sets `plasticity` and `sum`; 0 where keys i + r and p panel + k are no pair i < j < n.
  void compute(const scaled_keys<F>& keys, index_t i, index_t p) {
    const vec<F> nan = splat(std::numeric_limits<F>::quiet_NaN());
    for_each_vector(keys, i, p, [&](int r, int k, const vec<F>& n, const vec<F>& v, const vec<F>& m) {
      store(plasticity + r * panel + k * lanes<F>,
            v - n * cancelled >= splat(least_v<F>) ? plasticity_lanes(m, v) : nan);
    });
    for (int r = 0; r < rows; ++r) {
      F* const row = plasticity + r * panel;
      const auto first = static_cast<int>(std::clamp<index_t>(i + r + 1 - p * panel, 0, panel));
      const auto last = static_cast<int>(std::clamp<index_t>(keys.n - p * panel, 0, panel));
      for (int k = 0; k < panel; ++k) row[k] = k >= first && k < last ? row[k] : F{0};
    }
    sum = vec<F>{};
    for (int at = 0; at < rows * panel; at += lanes<F>) {
      if (any_nan<F>(load(plasticity + at)))
        for (int l = at; l < at + lanes<F>; ++l)
          if (std::isnan(plasticity[l])) plasticity[l] = from_difference(keys, i + l / panel, p * panel + l % panel);
      sum += load(plasticity + at);
    }
  }

 private:
  /// Calls each(r, k, n, v, m) for vector k of row r: n = |z_i|^2 + |z_j|^2, v = |z_i - z_j|^2, m = score_j - score_i.
  template <class Each>
  static void for_each_vector(const scaled_keys<F>& keys, index_t i, index_t p, const Each& each) {
    constexpr int L = lanes<F>;
    const index_t rank = keys.rank;
    const F* a = keys.at(i);
    const F* b = keys.z.data() + p * rank * panel;
    vec<F> g[rows][vectors] = {};
    for (index_t c = 0; c < rank; ++c, a += panel, b += panel) {
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 3
        for (int k = 0; k < vectors; ++k) g[r][k] += load(b + k * L) * a[r];
    }
    for (int k = 0; k < vectors; ++k) {
      const index_t j = p * panel + k * L;
      const vec<F> nj = load(keys.norm.data() + j), sj = load(keys.score.data() + j);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const vec<F> n = nj + keys.norm[i + r];
        each(r, k, n, n - g[r][k] * F{2}, sj - keys.score[i + r]);
      }
    }
  }

  static F from_difference(const scaled_keys<F>& keys, index_t i, index_t j) {
    const F *a = keys.at(i), *b = keys.at(j);
    double v = 0;
    for (index_t c = 0; c < keys.rank; ++c) {
      const double x = static_cast<double>(a[c * panel]) - static_cast<double>(b[c * panel]);
      v += x * x;
    }
    return static_cast<F>(pair_plasticity(static_cast<double>(keys.score[j]) - static_cast<double>(keys.score[i]), v));
  }
};

/// Adds pairs that count 1 each to a heatmap, in runs of one cell, whose counts and sums are held until the run ends.
template <class F>
class heat_runs {
 public:
  /// Takes the positions of the keys (tokens) and of the query, `tau`.
  heat_runs(pair_sink& sink, const std::int32_t* position, double tau) : sink_(sink), t_(position), tau_(tau) {}
  ~heat_runs() { flush(); }

  /// Returns the cell that all pairs of keys [i, i + rows) with later keys [j, j + columns) share, or -1 without one.
  index_t shared_cell(index_t i, index_t rows, index_t j, index_t columns) const {
    const std::int32_t *const a = t_ + i, *const b = t_ + j;
    const index_t cell = cell_of(a[0], b[0]);  // at the ends of all distances and of all middles
    return cell == cell_of(a[rows - 1], b[columns - 1]) && cell == cell_of(a[0], b[columns - 1]) &&
                   cell == cell_of(a[rows - 1], b[0])
               ? cell
               : -1;
  }
  /// Adds `count` pairs of one cell, whose plasticity is the sum of the lanes of `sum`.
  void add(index_t cell, index_t count, const vec<F>& sum) {
    begin_run(cell, count);
    sum_.add(sum);
  }
  /// Adds the pairs of key i with later keys [begin, end) of a panel that begins at key `first`, of plasticity `panel`.
  void add_row(index_t i, index_t begin, index_t end, const F* panel, index_t first) {
    while (begin < end) {
      const auto run = sink_.cells.run_of(t_[i], t_[begin], tau_);
      const index_t next = t_[end - 1] <= run.last ? end : std::upper_bound(t_ + begin + 1, t_ + end, run.last) - t_;
      if (run.cell >= 0) {
        begin_run(run.cell, next - begin);
        add_lanes(panel, begin - first, next - first);
      }
      begin = next;
    }
  }

 private:
  using mask = typename simd<F>::mask;
  using lane_int = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;

  void add_lanes(const F* panel, index_t begin, index_t end) {
    constexpr int L = lanes<F>;
    mask lane;
    for (int l = 0; l < L; ++l) lane[l] = l;
    for (index_t from = begin / L * L; from < end; from += L) {
      const mask inside = (lane >= static_cast<lane_int>(begin - from)) & (lane < static_cast<lane_int>(end - from));
      sum_.add(inside ? load(panel + from) : vec<F>{});
    }
  }
  index_t cell_of(std::int32_t t_i, std::int32_t t_j) const {
    return sink_.cells.cell_of(sink_.cells.place(t_i, t_j), tau_);
  }
  void begin_run(index_t cell, index_t count) {
    if (cell != cell_) flush();
    cell_ = cell;
    count_ += count;
  }
  void flush() {
    if (cell_ < 0) return;
    sink_.heat_sum[cell_] += sum_.value();
    sink_.heat_weight[cell_] += static_cast<double>(count_);
    sum_ = {};
    count_ = 0;
  }

  pair_sink& sink_;
  const std::int32_t* t_;
  double tau_;
  index_t cell_ = -1, count_ = 0;
  lane_sums<F> sum_;
};

/// Adds share `share` of `shares` of the sum over all pairs i < j of one group under one query bucket: panels p =
/// share, share + shares, ... of j. Blocks of i stay in the second-level cache while the panels pass.
template <class F>
void sum_tiles(const scaled_keys<F>& keys, index_t share, index_t shares, const score_distribution& scores,
               index_t group, const rank_range& range, pair_sink& sink, weighted_sums& out) {
  constexpr index_t panel = gram_tile<F>::panel, block = 16 * panel;
  constexpr int rows = gram_tile<F>::rows;
  gram_tile<F> tile;
  lane_sums<F> tile_sums;
  weighted_sums total;  // written once at the end, since neighbours of `out` belong to other threads
  const bool simple = sink.simple(), heat = sink.request->heatmap_cell > 0,
             weighted = static_cast<bool>(sink.request->weight);
  heat_runs<F> runs(sink, sink.groups->position.data() + sink.groups->offset[group] + range.begin, scores.tau);
  const auto add_pair = [&](index_t i, index_t j, double pp) {
    const double w = sink.weight(group, range, scores, i, j);
    if (w == 0) return;
    sink.add_heat(sink.place(group, i, j), scores, pp, w);
    total.add(pp, w);
  };
  const auto add_tile = [&](index_t i, index_t p) {
    const index_t first = p * panel, last = std::min(keys.n, first + panel);
    const bool whole = i + rows <= first && last == first + panel;
    const index_t cell = whole && heat && !weighted ? runs.shared_cell(i, rows, first, panel) : -1;
    const bool added = whole && (simple || cell >= 0 ? tile.template add_up<false>(keys, i, p)
                                                     : tile.template add_up<true>(keys, i, p));
    if (!added) tile.compute(keys, i, p);
    if (!weighted) tile_sums.add(tile.sum);
    if (simple) return;
    if (cell >= 0) return runs.add(cell, rows * panel, tile.sum);
    for (index_t r = i; r < std::min(keys.n, i + rows); ++r) {
      const F* const row = tile.plasticity + (r - i) * panel;
      const index_t begin = std::max(first, r + 1);
      if (weighted)
        for (index_t j = begin; j < last; ++j)
          add_pair(range.begin + r, range.begin + j, static_cast<double>(row[j - first]));
      else
        runs.add_row(r, begin, last, row, first);
    }
  };
  for (index_t from = 0; from < keys.n; from += block)
    for (index_t p = share; p < keys.panels(); p += shares)
      for (index_t i = from; i < std::min({keys.n, from + block, (p + 1) * panel}); i += rows) add_tile(i, p);
  total.sum += tile_sums.value();
  out = total;
}

}  // namespace qkgeom::cpu
