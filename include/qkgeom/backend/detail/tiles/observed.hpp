// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "qkgeom/backend/detail/tiles/sums.hpp"

namespace qkgeom::tile {

/// Returns 1 if x > y, 1/2 if x = y, 0 if x < y: with the addition of the result, three f32 instructions of a device.
/// Differences below 2^-121 give values in between.
QKGEOM_HD inline float wins(float x, float y) {
  const float t = (x - y) * 0x1p120f + 0.5f;
#if defined(__CUDA_ARCH__)
  return __saturatef(t);
#else
  return t < 0.0f ? 0.0f : (t > 1.0f ? 1.0f : t);
#endif
}

struct observed_bucket {
  const float* score;  ///< (queries, n) of the launch's keys
  index_t queries;
};

/// Sums 4 p (1 - p) over the pairs of a tile, where p is the share of a bucket's queries that score one key above the
/// other; a tie counts 1/2. A thread counts wins of 8 x 8 pairs, over scores in shared memory, two stages of 32
/// queries. Where a tile has few pairs, threads share its 8 x 8 blocks by query. Counts and their products are exact
/// up to the sum of a row, for at most 2^20 queries per bucket.
struct observed_tiles {
  static constexpr int threads = tile_threads, blocks_per_processor = 2;
  static constexpr int block = 8, across = tile_side / block, stage_queries = 32;
  static constexpr int stage_floats = stage_queries * 2 * tile_side, count_row = tile_side + 1;
  static_assert(across * across == threads && 2 * tile_side == threads);

  tile_list tiles;
  const observed_bucket* buckets;
  tile_sums out;

  struct shared_values {
    admitted_keys keys;
    std::int64_t sum[tile_side][2];
    double row[tile_side];
    std::int32_t actives;
    std::uint8_t has_pairs[threads], active[threads];  ///< by block of 8 x 8; numbers of the blocks with pairs
  };
  /// The counts (tile_side, count_row) take the place of the stages.
  static constexpr int main_floats = 2 * stage_floats > tile_side* count_row ? 2 * stage_floats : tile_side* count_row;
  index_t shared_bytes() const { return main_floats * static_cast<index_t>(sizeof(float)) + sizeof(shared_values); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block_number, unsigned char* shared) const {
    auto* const stage = reinterpret_cast<float*>(shared);
    auto& values = *reinterpret_cast<shared_values*>(shared + main_floats * sizeof(float));
    const placed_tile tile(tiles, block_number);
    const observed_bucket bucket = buckets[tile.span.bucket];
    list_blocks(team, tile, values);
    const int actives = values.actives;
    int ways = 1;  // threads that share a block
    while (2 * ways * actives <= threads && ways < stage_queries) ways *= 2;

    typename Team::template per_thread<thread_counts> mine;
    team.each([&](int t) {
      auto& m = mine[t];
      m.share = t < ways * actives ? t / actives : -1;
      const int number = m.share < 0 ? 0 : values.active[t % actives];
      m.row = number / across * block;
      m.column = number % across * block;
      QKGEOM_UNROLL
      for (int a = 0; a < block; ++a) {
        QKGEOM_UNROLL
        for (int b = 0; b < block; ++b) m.wins[a][b] = 0;
      }
    });
    team.each([&](int t) { load(team, tile, bucket, 0, stage, t); });
    for (index_t first = 0, which = 0; first < bucket.queries; first += stage_queries, which ^= 1) {
      const bool more = first + stage_queries < bucket.queries;
      team.each_then_wait([&](int t) {
        if (more) load(team, tile, bucket, first + stage_queries, stage + (which ^ 1) * stage_floats, t);
        if (more)
          team.template wait<1>();
        else
          team.template wait<0>();
      });
      const index_t left = bucket.queries - first;
      const int count = left < stage_queries ? static_cast<int>(left) : stage_queries;
      const float* const scores = stage + which * stage_floats;
      const int second_side = tile.i0 == tile.j0 ? 0 : tile_side;
      team.each_then_wait([&](int t) { add_wins(mine[t], scores, second_side, count, ways); });
    }
    for (int share = 0; share < ways; ++share) team.each_then_wait([&](int t) { put_wins(mine[t], share, stage); });
    add_rows(team, tile, bucket, values, stage);
    team.each_then_wait([&](int t) {
      const double doubled = 2.0 * static_cast<double>(bucket.queries);
      if (t < tile_side)
        values.row[t] = 4.0 * static_cast<double>(values.sum[t][0] + values.sum[t][1]) / (doubled * doubled);
    });
    write_sums(team, tile, tiles.n, values.row, out, 0);
  }

 private:
  struct thread_counts {
    int share, row, column;  ///< share of the queries, or -1; first pair of the block
    float wins[block][block];
  };

  /// Lists the 8 x 8 blocks that hold a pair, ascending.
  template <class Team>
  QKGEOM_HD void list_blocks(const Team& team, const placed_tile& tile, shared_values& values) const {
    team.each_then_wait([&](int t) {
      if (t < tile_side) values.keys.load(tiles, tile, 0, t);
    });
    team.each_then_wait([&](int t) {
      const int row = t / across * block, column = t % across * block;
      bool any = false;
      for (int r = row; r < row + block; ++r) any |= !values.keys.columns(tile, r, column, column + block).empty();
      values.has_pairs[t] = any;
    });
    team.each_then_wait([&](int t) {
      int before = 0;
      for (int i = 0; i < t; ++i) before += values.has_pairs[i];
      if (values.has_pairs[t]) values.active[before] = static_cast<std::uint8_t>(t);
      if (t == threads - 1) values.actives = before + values.has_pairs[t];
    });
  }

  /// Loads scores of up to stage_queries queries from `first` on; a thread takes one key of one side.
  template <class Team>
  QKGEOM_HD void load(const Team& team, const placed_tile& tile, const observed_bucket& bucket, index_t first,
                      float* to, int t) const {
    const int side = t / tile_side;
    if (side == 0 || tile.i0 != tile.j0) {
      const index_t key = tile.key(side, t % tile_side);
      const bool there = key < tile.end;
      const float* from = bucket.score + first * tiles.n + (there ? key : 0);
      const index_t left = bucket.queries - first;
      const int count = left < stage_queries ? static_cast<int>(left) : stage_queries;
      for (int q = 0; q < count; ++q, from += tiles.n)
        team.template copy<sizeof(float)>(to + q * 2 * tile_side + t, from, there);
    }
    team.commit();
  }

  static QKGEOM_HD void add_wins(thread_counts& mine, const float* scores, int second_side, int count, int ways) {
    if (mine.share < 0) return;
    for (int q = mine.share; q < count; q += ways) {
      const float* const of_query = scores + q * 2 * tile_side;
      const float *const first = of_query + mine.row, *const second = of_query + second_side + mine.column;
      const four_floats x[2] = {four_floats(first), four_floats(first + 4)};
      const four_floats y[2] = {four_floats(second), four_floats(second + 4)};
      QKGEOM_UNROLL
      for (int a = 0; a < block; ++a) {
        QKGEOM_UNROLL
        for (int b = 0; b < block; ++b) mine.wins[a][b] += tile::wins(y[b / 4].value[b % 4], x[a / 4].value[a % 4]);
      }
    }
  }

  static QKGEOM_HD void put_wins(const thread_counts& mine, int share, float* counts) {
    if (mine.share != share) return;
    QKGEOM_UNROLL
    for (int a = 0; a < block; ++a) {
      QKGEOM_UNROLL
      for (int b = 0; b < block; ++b) {
        float& to = counts[(mine.row + a) * count_row + mine.column + b];
        to = share == 0 ? mine.wins[a][b] : to + mine.wins[a][b];
      }
    }
  }

  /// Sets sum(row, half) to the sum of w (2 n - w) over half a row, w twice the wins of a pair, n the queries.
  template <class Team>
  QKGEOM_HD void add_rows(const Team& team, const placed_tile& tile, const observed_bucket& bucket,
                          shared_values& values, const float* counts) const {
    team.each_then_wait([&](int t) {
      const int r = t / 2, from = t % 2 * (tile_side / 2);
      const auto columns = values.keys.columns(tile, r, from, from + tile_side / 2);
      std::int64_t sum = 0;
      for (int c = columns.first; c < columns.end; ++c) {
        const auto w = static_cast<std::int64_t>(2.0f * counts[r * count_row + c]);
        sum += w * (2 * bucket.queries - w);
      }
      values.sum[r][t % 2] = sum;
    });
  }
};

}  // namespace qkgeom::tile
