// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>

#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"

/// Weights of the pairs of a tile, evaluated by the caller's function.
namespace qkgeom::tile {

/// The keys of a launch, as far as a weight reads them.
struct weight_keys {
  const std::int32_t *position, *document;  ///< (n)
};

/// Shared-memory arguments of the weights of a tile's pairs, or the weights if they depend only on the later key.
template <class Weight>
struct tile_weights {
  static constexpr int entries = Weight::of_later_key ? 1 : tile_side;
  std::int32_t rank[2][entries], position[2][entries], document[2][entries], keys[entries];
  double weight[Weight::of_later_key ? tile_side : 1];

  /// Loads a key; `number` is the number of the range that admits it, or -1.
  QKGEOM_HD void load(const Weight& weigh, const tile_list& list, const placed_tile& tile, std::int32_t number,
                      const weight_keys& from, int side, int row) {
    const index_t key = tile.key(side, row);
    const group_range range = list.ranges[tile.span.first_range + (number < 0 ? 0 : number)];
    const index_t place = key - range.first;
    if constexpr (Weight::of_later_key) {
      if (side == 1) weight[row] = number >= 0 && place > 0 ? weigh(key_pair{0, place, range.count}) : 0.0;
    } else {
      const bool there = key < tile.end;
      rank[side][row] = static_cast<std::int32_t>(place);
      position[side][row] = there ? from.position[key] : 0;
      document[side][row] = there ? from.document[key] : 0;
      if (side == 0) keys[row] = static_cast<std::int32_t>(range.count);
    }
  }

  /// Returns the weight of pair (r, c), unchecked: it may be negative or NaN.
  QKGEOM_HD double of_pair([[maybe_unused]] const Weight& weigh, [[maybe_unused]] double tau, [[maybe_unused]] int r,
                           int c) const {
    if constexpr (Weight::of_later_key)
      return weight[c];
    else
      return weigh(key_pair{.i = rank[0][r],
                            .j = rank[1][c],
                            .keys = keys[r],
                            .t_i = position[0][r],
                            .t_j = position[1][c],
                            .document_i = document[0][r],
                            .document_j = document[1][c],
                            .tau = tau});
  }
};

/// Sets most[problem] to the bits of the largest weight of a pair; bits of non-negative doubles sort like the values.
template <class Weight>
struct largest_weight {
  static constexpr int threads = tile_threads, blocks_per_processor = 2;
  tile_list tiles;
  weight_keys keys;
  const double* tau;       ///< (buckets)
  const index_t* problem;  ///< (buckets)
  Weight weight;
  unsigned long long* most;

  struct shared_values {
    admitted_keys admitted;
    tile_weights<Weight> weights;
    double most[threads];
  };
  index_t shared_bytes() const { return static_cast<index_t>(sizeof(shared_values)); }

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char* shared) const {
    auto& side = *reinterpret_cast<shared_values*>(shared);
    const placed_tile tile(tiles, block);
    team.each_then_wait([&](int t) {
      const int which = t / tile_side, row = t % tile_side;
      side.weights.load(weight, tiles, tile, side.admitted.load(tiles, tile, which, row), keys, which, row);
    });
    team.each_then_wait([&](int t) {
      double largest = 0;
      const auto columns = side.admitted.columns(tile, t / 2);
      for (int c = columns.first + t % 2; c < columns.end; c += 2) {
        const double w = side.weights.of_pair(weight, tau[tile.span.bucket], t / 2, c);
        if (backend::is_weight(w) && w > largest) largest = w;
      }
      side.most[t] = largest;
    });
    for (int step = threads / 2; step > 0; step /= 2)
      team.each_then_wait([&](int t) {
        if (t < step && side.most[t + step] > side.most[t]) side.most[t] = side.most[t + step];
      });
    team.each([&](int t) {
      if (t == 0) keep_most(most + problem[tile.span.bucket], std::bit_cast<unsigned long long>(side.most[0]));
    });
  }
};

}  // namespace qkgeom::tile
