// SPDX-License-Identifier: MIT
#include "qkgeom/report/analyse_layer.hpp"

#include <cstddef>

namespace qkgeom {

known_moments known_moments_of(std::vector<token_moments> blocks, bool each_block) {
  if (!each_block) {
    for (std::size_t b = 1; b < blocks.size(); ++b) merge(blocks.at(0), blocks[b]);
    blocks.resize(1);
  }
  known_moments known{blocks.at(0).moments, {}};
  for (std::size_t b = 1; b < blocks.size(); ++b) known.moments = merge(std::move(known.moments), blocks[b].moments);
  auto& by_block = known.by_block;
  by_block.blocks.count = static_cast<index_t>(blocks.size());
  by_block.blocks.as_stored = each_block;
  by_block.k.resize(known.moments.k.size());
  if (each_block) by_block.q.resize(known.moments.q.size());
  for (auto& block : blocks) {
    for (std::size_t h = 0; h < by_block.k.size(); ++h)
      by_block.k[h].push_back({std::move(block.moments.k[h].total), std::move(block.k_differences[h]), block.k_pairs});
    for (std::size_t h = 0; h < by_block.q.size(); ++h) {
      auto& total = block.moments.q[h].total;
      std::vector<double> none(total.xx.size());
      by_block.q[h].push_back({std::move(total), std::move(none), 0});
    }
  }
  return known;
}

}  // namespace qkgeom
