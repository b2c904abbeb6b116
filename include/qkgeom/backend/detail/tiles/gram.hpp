// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/tiles/math.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"

/// The Gram matrix of a pair tile by tensor cores.
namespace qkgeom::tile {

/// Columns of a stage. Rows of shared memory are padded to 80 bytes, so that eight of them hit all banks once.
inline constexpr int stage_k = 32, stage_row = stage_k + 8, operand_elements = tile_side * stage_row;

/// Operands of a launch: for each query bucket n keys of `width` columns. A value is high + low; `low` may be null.
struct gram_keys {
  const bf16 *high, *low;  ///< (buckets, n, width)
  index_t n;
  int width;
};

/// A thread's warp: eight warps lie as 2 x 4 on a tile, each on 64 x 32 pairs, 4 x 4 register tiles of 16 x 8.
struct warp_place {
  int lane, row, column;
  QKGEOM_HD explicit warp_place(int t) : lane(t % 32), row(t / 128 * 64), column(t / 32 % 4 * 32) {}
};

/// Shared memory of one stage of the operands of both sides; `bytes` for two stages.
template <bool Split>
struct gram_stage {
  static constexpr int operands = Split ? 2 : 1, elements = 2 * operands * operand_elements;
  static constexpr int bytes = 2 * elements * static_cast<int>(sizeof(bf16));
  bf16* base;
  QKGEOM_HD bf16* operand(int side, int low) const { return base + (side * operands + low) * operand_elements; }
};

/// The pieces of eight elements that a thread copies in every stage, of every operand of both sides.
struct stage_share {
  static constexpr int row_pieces = stage_k / 8, pieces = tile_side * row_pieces / tile_threads;
  int from[2][pieces];  ///< elements from the side's first key
  bool there[2][pieces];

  QKGEOM_HD static int row(int t, int piece) { return t / row_pieces + tile_threads / row_pieces * piece; }
  QKGEOM_HD static int column(int t) { return t % row_pieces * 8; }
  QKGEOM_HD void place(const placed_tile& tile, int width, int t) {
    QKGEOM_UNROLL
    for (int side = 0; side < 2; ++side) {
      QKGEOM_UNROLL
      for (int piece = 0; piece < pieces; ++piece) {
        there[side][piece] = tile.key(side, row(t, piece)) < tile.end;
        from[side][piece] = (there[side][piece] ? row(t, piece) * width : 0) + column(t);
      }
    }
  }
};

/// Adds the products of one stage to g. Split: high high + high low + low high.
template <bool Split, class Team>
QKGEOM_HD void multiply_stage(const Team& team, typename Team::template per_thread<products>& g,
                              const gram_stage<Split>& stage) {
  using fragments = typename Team::template per_thread<fragment>;
  constexpr int operands = gram_stage<Split>::operands;
  fragments a[operands], b[operands][2];
  QKGEOM_UNROLL
  for (int k = 0; k < stage_k; k += 16) {
    QKGEOM_UNROLL
    for (int low = 0; low < operands; ++low) {
      QKGEOM_UNROLL
      for (int n = 0; n < 2; ++n)
        team.load_matrices(b[low][n], [&](int t) {
          const warp_place me(t);
          return stage.operand(1, low) + (me.column + 16 * n + me.lane % 8 + me.lane / 16 * 8) * stage_row + k +
                 me.lane / 8 % 2 * 8;
        });
    }
    QKGEOM_UNROLL
    for (int m = 0; m < 4; ++m) {
      QKGEOM_UNROLL
      for (int low = 0; low < operands; ++low)
        team.load_matrices(a[low], [&](int t) {
          const warp_place me(t);
          return stage.operand(0, low) + (me.row + 16 * m + me.lane % 16) * stage_row + k + me.lane / 16 * 8;
        });
      QKGEOM_UNROLL
      for (int n = 0; n < 4; ++n) {
        team.multiply(g, m, n, a[0], b[0][n / 2], n % 2);
        if constexpr (Split) {
          team.multiply(g, m, n, a[0], b[1][n / 2], n % 2);
          team.multiply(g, m, n, a[1], b[0][n / 2], n % 2);
        }
      }
    }
  }
}

/// Computes the Gram matrix g of a tile, through two stages of shared memory.
template <bool Split, class Team>
QKGEOM_HD void gram(const Team& team, typename Team::template per_thread<products>& g, bf16* shared,
                    const gram_keys& keys, const placed_tile& tile) {
  constexpr int operands = gram_stage<Split>::operands;
  const index_t bucket = tile.span.bucket * keys.n;
  const auto stage = [&](int which) { return gram_stage<Split>{shared + which * gram_stage<Split>::elements}; };
  typename Team::template per_thread<stage_share> share;
  const auto fill = [&](int k, int which, int t) {
    QKGEOM_UNROLL
    for (int side = 0; side < 2; ++side) {
      QKGEOM_UNROLL
      for (int piece = 0; piece < stage_share::pieces; ++piece) {
        const int to = stage_share::row(t, piece) * stage_row + stage_share::column(t);
        QKGEOM_UNROLL
        for (int low = 0; low < operands; ++low)
          team.template copy<16>(
              stage(which).operand(side, low) + to,
              (low ? keys.low : keys.high) + (bucket + tile.key(side, 0)) * keys.width + k + share[t].from[side][piece],
              share[t].there[side][piece]);
      }
    }
    team.commit();
  };
  team.each([&](int t) {
    QKGEOM_UNROLL
    for (int m = 0; m < 4; ++m) {
      QKGEOM_UNROLL
      for (int n = 0; n < 4; ++n) {
        QKGEOM_UNROLL
        for (int e = 0; e < 4; ++e) g[t].value[m][n][e] = 0;
      }
    }
    share[t].place(tile, keys.width, t);
    fill(0, 0, t);
  });
  for (int k = 0, which = 0; k < keys.width; k += stage_k, which ^= 1) {
    team.each_then_wait([&](int t) {
      if (k + stage_k < keys.width) {
        fill(k + stage_k, which ^ 1, t);
        team.template wait<1>();
      } else {
        team.template wait<0>();
      }
    });
    multiply_stage<Split>(team, g, stage(which));
    team.barrier();
  }
}

/// Returns one of 32 lanes' part of |a - b|^2 of two keys (width): v of a pair whose Gram form has cancelled.
template <bool Split>
QKGEOM_HD float part_of_difference(const bf16* high, const bf16* low, index_t a, index_t b, int width, int lane) {
  float v = 0;
  QKGEOM_ROLLED
  for (int c = 4 * lane; c < width; c += 4 * 32) {
    QKGEOM_UNROLL
    for (int i = 0; i < 4; ++i) {
      float x = static_cast<float>(high[a + c + i]) - static_cast<float>(high[b + c + i]);
      if constexpr (Split) x += static_cast<float>(low[a + c + i]) - static_cast<float>(low[b + c + i]);
      v += x * x;
    }
  }
  return v;
}

}  // namespace qkgeom::tile
