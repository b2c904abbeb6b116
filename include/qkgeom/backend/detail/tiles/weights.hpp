// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>

#include "qkgeom/backend/detail/device_weight.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"

/// Weights of the pairs of a tile.
namespace qkgeom::tile {

/// What a weight reads of the keys of a launch.
struct weight_keys {
  const std::int32_t *position, *document;  ///< (n)
};

/// What the weights of a tile's pairs are made from, in shared memory; of a weight that depends on the later key alone
/// the weights themselves.
template <class Weight>
struct tile_weights {
  static constexpr int many = Weight::of_later_key ? 1 : tile_side;
  std::int32_t rank[2][many], position[2][many], document[2][many], keys[many];
  double weight[Weight::of_later_key ? tile_side : 1];

  /// `number`: the range that admits the key, -1: none.
  QKGEOM_HD void load(const Weight& weigh, const tile_list& list, const placed_tile& tile, std::int32_t number,
                      const weight_keys& of, int side, int row) {
    const index_t key = tile.key(side, row);
    const group_range range = list.ranges[tile.span.first_range + (number < 0 ? 0 : number)];
    const index_t place = key - range.first;
    if constexpr (Weight::of_later_key) {
      if (side == 1) weight[row] = number >= 0 && place > 0 ? weigh(key_pair{0, place, range.count}) : 0.0;
    } else {
      const bool there = key < tile.end;
      rank[side][row] = static_cast<std::int32_t>(place);
      position[side][row] = there ? of.position[key] : 0;
      document[side][row] = there ? of.document[key] : 0;
      if (side == 0) keys[row] = static_cast<std::int32_t>(range.count);
    }
  }

  /// Of the pair of row r and column c, whatever it is: it may be none that a pair may have.
  QKGEOM_HD double of_pair([[maybe_unused]] const Weight& weigh, [[maybe_unused]] double tau, [[maybe_unused]] int r,
                           int c) const {
    if constexpr (Weight::of_later_key)
      return weight[c];
    else
      return weigh(key_pair{rank[0][r], rank[1][c], keys[r], position[0][r], position[1][c], document[0][r],
                            document[1][c], tau});
  }
};

/// most[problem] = the bits of the largest weight of a pair, which are in the order of the weights.
template <class Weight>
struct largest_weight {
  static constexpr int threads = tile_threads, blocks_a_processor = 2;
  tile_list tiles;
  weight_keys keys;
  const double* tau;       ///< (distributions)
  const index_t* problem;  ///< (distributions)
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
    team.each([&](int t) {
      const int of = t / tile_side, row = t % tile_side;
      side.weights.load(weight, tiles, tile, side.admitted.load(tiles, tile, of, row), keys, of, row);
    });
    team.each([&](int t) {
      double largest = 0;
      const auto columns = side.admitted.columns(tile, t / 2);
      for (int c = columns.first + t % 2; c < columns.end; c += 2) {
        const double w = side.weights.of_pair(weight, tau[tile.span.distribution], t / 2, c);
        if (backend::is_weight(w) && w > largest) largest = w;
      }
      side.most[t] = largest;
    });
    for (int step = threads / 2; step > 0; step /= 2)
      team.each([&](int t) {
        if (t < step && side.most[t + step] > side.most[t]) side.most[t] = side.most[t + step];
      });
    team.own([&](int t) {
      if (t == 0) keep_most(most + problem[tile.span.distribution], std::bit_cast<unsigned long long>(side.most[0]));
    });
  }
};

}  // namespace qkgeom::tile
