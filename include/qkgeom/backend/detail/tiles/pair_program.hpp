// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "qkgeom/backend/detail/tiles/gram.hpp"
#include "qkgeom/backend/detail/tiles/weights.hpp"

namespace qkgeom::tile {

/// Keys of a launch under its query buckets: the operands and, for each key, scalars.
struct tile_keys {
  gram_keys operand;
  const float *norm, *score;                ///< (buckets, n)
  const float *drift, *content, *cross;     ///< (buckets, n) with terms, else null; see operand_rows
  const std::int32_t *position, *document;  ///< (n)
};

/// A query bucket of a launch.
struct tile_bucket {
  double tau;       ///< query position, tokens
  index_t problem;  ///< problem of its heatmap
  float drift_mean, drift_variance;
};

/// Sums the plasticity of a tile's pairs: tensor cores compute the Gram matrix, the rest happens in registers. Sums run
/// over 32 pairs of a row, in f32 without a weight, then over rows and tile in f64. Values: the sum; with a weight sum,
/// weight and number of pairs; with Terms the sum and the seven terms. Heat: cells too, with Terms by group.
template <bool Split, bool Heat, class Weight = backend::no_weight, bool Terms = false>
struct pair_tiles {
  static_assert(!Terms || !Weight::given, "terms come without a weight");
  static constexpr int threads = tile_threads,
                       blocks_per_processor = Terms || (Weight::given && (Heat || !Weight::of_later_key)) ? 1 : 2;
  static constexpr int values = Weight::given ? 3 : (Terms ? 1 + terms_of_pair : 1);
  /// The sum of a quarter of a row, 32 pairs.
  using partial = std::conditional_t<Weight::given, double, float>;

  tile_list tiles;
  tile_keys keys;
  const tile_bucket* buckets;
  const double* scale;  ///< (buckets) scale of the keys
  tile_sums out;
  tile_heat heat;
  Weight weight;
  unsigned long long* refused;  ///< (buckets) the first pair, i n + j, whose weight is negative or not finite

  struct shared_values {
    alignas(16) float norm_score[2][tile_side][2];
    admitted_keys admitted;
    float term[Terms ? 3 : 1][2][Terms ? tile_side : 1];
    std::int32_t position[2][tile_side];
    std::conditional_t<Weight::given, tile_weights<Weight>, int> weights;
    double row[tile_side];
  };
  /// After the Gram matrix, the memory of its operands holds the plasticity (with Terms v) of all pairs, for a heatmap,
  /// and the sums (values, rows, 4) of quarters of rows. A row's stride is 5 modulo the 32 banks, so that the rows of a
  /// column lie in different banks and a warp writes to no bank more than twice at once.
  static constexpr int heat_row = tile_side + 5;
  static constexpr int heat_bytes = Heat ? tile_side * heat_row * static_cast<int>(sizeof(float)) : 0;
  static constexpr int sum_bytes = values * tile_side * 4 * static_cast<int>(sizeof(partial));
  static constexpr int main_bytes =
      gram_stage<Split>::bytes > heat_bytes + sum_bytes ? gram_stage<Split>::bytes : heat_bytes + sum_bytes;
  index_t shared_bytes() const { return main_bytes + static_cast<index_t>(sizeof(shared_values)); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char* shared) const {
    auto& side = *reinterpret_cast<shared_values*>(shared + main_bytes);
    const placed_tile tile(tiles, block);
    const tile_bucket bucket = buckets[tile.span.bucket];
    team.each([&](int t) { load(tile, side, t / tile_side, t % tile_side); });
    typename Team::template per_thread<products> g;
    gram<Split>(team, g, reinterpret_cast<bf16*>(shared), keys.operand, tile);

    auto* const plasticity = reinterpret_cast<float*>(shared);
    auto* const sums = reinterpret_cast<partial*>(shared + heat_bytes);
    typename Team::template per_thread<columns_of_thread> columns;
    team.each([&](int t) { columns[t].read(side.norm_score[1], t); });
    typename Team::template per_thread<partial> sum[values];
    typename Team::template per_thread<doubtful_row> v;
    const auto add_rows = [&]<bool Whole>(std::bool_constant<Whole>) {
      QKGEOM_UNROLL
      for (int m = 0; m < 4; ++m) {
        QKGEOM_UNROLL
        for (int half = 0; half < 2; ++half) {
          team.each([&](int t) {
            read_row<Whole>(tile, side, columns[t], g[t].value[m], half, t, row_of(t, m, half), v[t]);
          });
          team.replace_doubtful(v, [&](int t, int i, int lane) {
            return part_of_difference<Split>(
                keys.operand.high, keys.operand.low, place(tile, tile.i0 + row_of(t, m, half)),
                place(tile, tile.j0 + first_column_of(t) + column_step(i)), keys.operand.width, lane);
          });
          team.each([&](int t) {
            partial of_row[values];
            add_row<Whole>(tile, bucket, side, columns[t], v[t].value, t, row_of(t, m, half), plasticity, of_row);
            QKGEOM_UNROLL
            for (int x = 0; x < values; ++x) sum[x][t] = of_row[x];
          });
          QKGEOM_UNROLL
          for (int x = 0; x < values; ++x) team.template sum_lanes<4>(sum[x]);
          team.each([&](int t) {
            const warp_place me(t);
            QKGEOM_UNROLL
            for (int x = 0; x < values; ++x)
              if (me.lane % 4 == 0) sums[(x * tile_side + row_of(t, m, half)) * 4 + me.column / 32] = sum[x][t];
          });
        }
      }
    };
    if (may_be_whole && side.admitted.are_all(tile))
      add_rows(std::bool_constant<may_be_whole>());
    else
      add_rows(std::false_type());
    team.barrier();
    if constexpr (Heat && Terms) team.each([&](int t) { add_cells(plasticity, side, tile, bucket, t); });
    if constexpr (Heat && !Terms) {
      typename Team::template per_thread<joined> rest;
      team.each([&](int t) { rest[t] = add_heat(plasticity, side, tile, bucket, t); });
      if constexpr (!Weight::given) team.join_lanes(rest, [&](const joined& x) { add_to_cell(x); });
    }
    for (int x = 0; x < values; ++x) {
      const double unit = unit_of(x, scale[tile.span.bucket]);
      team.each_then_wait([&](int t) {
        const partial* const quarters = sums + (x * tile_side + t) * 4;
        const auto of = [&](int quarter) { return static_cast<double>(quarters[quarter]); };
        if (t < tile_side) side.row[t] = ((of(0) + of(1)) + (of(2) + of(3))) * unit;
      });
      write_sums(team, tile, tiles.n, side.row, out, x);
    }
  }

 private:
  static constexpr int row_pairs = doubtful_row::size;  ///< pairs of a row in one thread
  /// Whether tiles whose pairs are all admitted (most tiles of large groups) skip the check of each pair.
  static constexpr bool may_be_whole = !Weight::given && !Terms;

  static QKGEOM_HD int first_column_of(int t) { return warp_place(t).column + t % 4 * 2; }
  /// Returns the column of a thread's pair i, counted from its first column.
  static QKGEOM_HD int column_step(int i) { return i / 2 * 8 + i % 2; }

  /// Norms and scores of a thread's eight columns.
  struct columns_of_thread {
    float norm[row_pairs], score[row_pairs], largest_norm;

    QKGEOM_HD void read(const float (*norm_score)[2], int t) {
      largest_norm = 0;
      QKGEOM_UNROLL
      for (int i = 0; i < row_pairs; i += 2) {
        const four_floats two(norm_score[first_column_of(t) + column_step(i)]);
        QKGEOM_UNROLL
        for (int k = 0; k < 2; ++k) {
          norm[i + k] = two.value[2 * k];
          score[i + k] = two.value[2 * k + 1];
          largest_norm = std::fmax(largest_norm, norm[i + k]);
        }
      }
    }
  };

  static QKGEOM_HD int row_of(int t, int m, int half) {
    const warp_place me(t);
    return me.row + me.lane / 4 + 16 * m + 8 * half;
  }

  /// Returns the first element of a key's operands.
  QKGEOM_HD index_t place(const placed_tile& tile, index_t key) const {
    return (tile.span.bucket * tiles.n + key) * keys.operand.width;
  }

  /// Returns the factor that undoes the keys' scale in sums of a value.
  static QKGEOM_HD double unit_of(int value, double scale) {
    if (!Terms || value < 2 || value > 6) return 1;
    return value < 4 ? 1 / scale : 1 / (scale * scale);
  }

  QKGEOM_HD void load(const placed_tile& tile, shared_values& to, int side, int row) const {
    const index_t key = tile.key(side, row);
    const bool there = key < tile.end;
    const index_t of_bucket = tile.span.bucket * tiles.n + key;
    to.norm_score[side][row][0] = there ? keys.norm[of_bucket] : 0.0f;
    to.norm_score[side][row][1] = there ? keys.score[of_bucket] : 0.0f;
    if constexpr (Heat || Terms) to.position[side][row] = there ? keys.position[key] : 0;
    if constexpr (Terms) {
      to.term[0][side][row] = there ? keys.drift[of_bucket] : 0.0f;
      to.term[1][side][row] = there ? keys.content[of_bucket] : 0.0f;
      to.term[2][side][row] = there ? keys.cross[of_bucket] : 0.0f;
    }
    if constexpr (Weight::given) {
      const std::int32_t range = to.admitted.load(tiles, tile, side, row);
      to.weights.load(weight, tiles, tile, range, {keys.position, keys.document}, side, row);
    } else {
      if (side == 0) to.admitted.load(tiles, tile, side, row);
    }
  }

  QKGEOM_HD static void terms_at(const tile_bucket& bucket, const shared_values& side, int r, int c, float m, float v,
                                 float* to) {
    const float step = side.term[0][0][r] - side.term[0][1][c];
    set_terms(m, v, bucket.drift_mean * step, side.term[1][0][r] - side.term[1][1][c],
              bucket.drift_variance * step * step, 2.0f * step * (side.term[2][0][r] - side.term[2][1][c]),
              side.position[0][r] == side.position[1][c], to);
  }

  /// Returns a function of i: whether pair i of a thread's eight is admitted. Whole: all are.
  template <bool Whole>
  QKGEOM_HD static auto admitted_of(const placed_tile& tile, const shared_values& side, int t, int r) {
    const column_run run = side.admitted.columns(tile, r);
    const int first = run.first - first_column_of(t), end = run.end - first_column_of(t);
    return [=](int i) { return Whole || (first <= column_step(i) && column_step(i) < end); };
  }

  /// Sets v of the thread's eight pairs of row `r` from the products g, and marks pairs whose Gram form has cancelled.
  template <bool Whole>
  QKGEOM_HD static void read_row(const placed_tile& tile, const shared_values& side, const columns_of_thread& columns,
                                 const float (&g)[4][4], int half, int t, int r, doubtful_row& v) {
    const auto is_pair = admitted_of<Whole>(tile, side, t, r);
    const float ni = side.norm_score[0][r][0];
    float least = HUGE_VALF;
    QKGEOM_UNROLL
    for (int i = 0; i < row_pairs; ++i) {
      v.value[i] = std::fma(-2.0f, g[i / 2][2 * half + i % 2], ni + columns.norm[i]);
      least = std::fmin(least, is_pair(i) ? v.value[i] : least);
    }
    v.doubtful = 0;
    if (least > (ni + columns.largest_norm) * cancelled) return;
    QKGEOM_UNROLL
    for (int i = 0; i < row_pairs; ++i)
      if (is_pair(i) && !(v.value[i] > (ni + columns.norm[i]) * cancelled)) v.doubtful |= 1u << i;
  }

  /// Adds the sums over the thread's eight pairs of row `r`.
  template <bool Whole>
  QKGEOM_HD void add_row(const placed_tile& tile, const tile_bucket& bucket, const shared_values& side,
                         const columns_of_thread& columns, const float (&v)[row_pairs], int t, int r, float* plasticity,
                         partial (&to)[values]) const {
    const int column = first_column_of(t);
    const auto is_pair = admitted_of<Whole>(tile, side, t, r);
    const float si = side.norm_score[0][r][1];
    float sum = 0, term[terms_of_pair] = {};
    double weighted = 0, weights = 0;
    int pairs = 0;
    QKGEOM_UNROLL
    for (int i = 0; i < row_pairs; ++i) {
      const int c = column + column_step(i);
      const float m = si - columns.score[i], p = tile::plasticity(m, v[i] > least_v<float> ? v[i] : least_v<float>);
      if constexpr (Heat) plasticity[r * heat_row + c] = Terms ? v[i] : p;
      if constexpr (Weight::given) {
        const double w = is_pair(i) ? side.weights.of_pair(weight, bucket.tau, r, c) : 0.0;
        if (backend::is_weight(w)) {
          weighted += is_pair(i) ? w * static_cast<double>(p) : 0.0;
          weights += w;
          pairs += w > 0;
        } else {
          keep_least(refused + tile.span.bucket,
                     static_cast<unsigned long long>((tile.i0 + r) * tiles.n + tile.j0 + c));
        }
      } else {
        sum += is_pair(i) ? p : 0.0f;
      }
      if constexpr (Terms) {
        float x[terms_of_pair];
        terms_at(bucket, side, r, c, m, v[i], x);
        QKGEOM_UNROLL
        for (int q = 0; q < terms_of_pair; ++q) term[q] += is_pair(i) ? x[q] : 0.0f;
      }
    }

    if constexpr (Weight::given) {
      to[0] = weighted;
      to[1] = weights;
      to[2] = pairs;
    } else {
      to[0] = sum;
    }
    if constexpr (Terms) {
      QKGEOM_UNROLL
      for (int i = 0; i < terms_of_pair; ++i) to[1 + i] = term[i];
    }
  }

  /// Calls add(c, x) for each pair of half a row that has a cell, x from `of_pairs` (tile_side, heat_row). Pairs come
  /// in runs of one cell; flush(cell) ends each run but the last, whose cell is returned, or -1 without pairs.
  template <class Add, class Flush>
  QKGEOM_HD index_t each_run(const float* of_pairs, const shared_values& side, const placed_tile& tile, double tau,
                             int t, const Add& add, const Flush& flush) const {
    const int row = heat_row_of(t), half = t / tile_side * (tile_side / 2);
    const column_run columns = side.admitted.columns(tile, row, half, half + tile_side / 2);
    backend::heatmap_cells::cell_run run;
    for (int c = columns.first; c < columns.end; ++c) {
      const std::int32_t position = side.position[1][c];
      if (position > run.last) {
        const auto next = heat.cells.run_of(side.position[0][row], position, tau);
        if (run.cell >= 0 && run.cell != next.cell) flush(run.cell);
        run = next;
      }
      if (run.cell >= 0) add(c, of_pairs[row * heat_row + c]);
    }
    return run.cell;
  }
  static QKGEOM_HD int heat_row_of(int t) { return t % tile_side; }

  QKGEOM_HD void add_to_cell(const joined& x) const {
    add_to(heat.sum + x.place, x.sum);
    add_to(heat.weight + x.place, x.weight);
  }

  /// Adds the plasticity of half a row to the heatmap, a run at a time. Without a weight it returns the last run,
  /// mostly the only one, since neighbours have the same cell.
  QKGEOM_HD joined add_heat(const float* plasticity, const shared_values& side, const placed_tile& tile,
                            const tile_bucket& bucket, int t) const {
    const index_t offset = bucket.problem * heat.cells.width * heat.cells.width;
    double sum = 0;
    std::conditional_t<Weight::given, double, int> weights = 0;
    const auto in_fixed_point = [&](index_t cell) {
      return joined{offset + cell, static_cast<unsigned long long>(sum * heat_unit + 0.5),
                    static_cast<unsigned long long>(weights)};
    };
    const auto add = [&](int c, float p) {
      if constexpr (Weight::given) {
        const double w = side.weights.of_pair(weight, bucket.tau, heat_row_of(t), c);
        if (!backend::is_weight(w)) return;
        sum += w * static_cast<double>(p);
        weights += w;
      } else {
        sum += static_cast<double>(p);
        ++weights;
      }
    };
    const auto flush = [&](index_t cell) {
      if constexpr (Weight::given) {
        const fixed_point unit = heat.unit[bucket.problem];
        if (weights > 0) {
          unit.add(heat.sum + offset + cell, heat.sum_low + offset + cell, sum);
          unit.add(heat.weight + offset + cell, heat.weight_low + offset + cell, weights);
        }
      } else {
        add_to_cell(in_fixed_point(cell));
      }
      sum = weights = 0;
    };
    const index_t last = each_run(plasticity, side, tile, bucket.tau, t, add, flush);
    if (last < 0) return {-1, 0, 0};
    if constexpr (!Weight::given) return in_fixed_point(last);
    flush(last);
    return {-1, 0, 0};
  }

  /// Adds plasticity and terms of half a row, computed again from v, to the cells of the row's group.
  QKGEOM_HD void add_cells(const float* of_v, const shared_values& side, const placed_tile& tile,
                           const tile_bucket& bucket, int t) const {
    const int row = heat_row_of(t);
    const std::int32_t range = side.admitted.range[row];
    if (range < 0) return;
    const index_t group = tiles.ranges[tile.span.first_range + range].group;
    const index_t offset = (bucket.problem * heat.by_group.groups + group) * heat.cells.width * heat.cells.width;
    double sum[group_cells::values] = {};
    const auto add = [&](int c, float v) {
      const float m = side.norm_score[0][row][1] - side.norm_score[1][c][1];
      float x[terms_of_pair];
      terms_at(bucket, side, row, c, m, v, x);
      if (!(x[terms_of_pair - 1] < most_abs_z)) x[terms_of_pair - 1] = most_abs_z;
      sum[0] += 1;
      sum[1] += static_cast<double>(tile::plasticity(m, v > least_v<float> ? v : least_v<float>));
      for (int i = 0; i < terms_of_pair; ++i) sum[2 + i] += static_cast<double>(x[i]);
    };
    const auto flush = [&](index_t cell) {
      for (int v = 2; v < group_cells::values; ++v) sum[v] *= unit_of(v - 1, scale[tile.span.bucket]);
      heat.by_group.add(bucket.problem, offset + cell, sum);
      for (double& x : sum) x = 0;
    };
    if (const index_t last = each_run(of_v, side, tile, bucket.tau, t, add, flush); last >= 0) flush(last);
  }
};

}  // namespace qkgeom::tile
