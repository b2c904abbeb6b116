// SPDX-License-Identifier: MIT
#include "capture/batches.hpp"

namespace qkgeom {

std::vector<document_range> shards_of(std::span<const index_t> tokens) {
  std::vector<document_range> ranges;
  index_t sum = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += tokens[i];
    if (sum < shard_tokens && i + 1 < tokens.size()) continue;
    ranges.emplace_back(begin, i + 1);
    begin = i + 1;
    sum = 0;
  }
  return ranges;
}

std::size_t batch_end(std::span<const index_t> tokens, std::size_t first, std::size_t end, index_t most) {
  index_t sum = tokens[first];
  std::size_t i = first + 1;
  while (i < end && sum + tokens[i] <= most) sum += tokens[i++];
  return i;
}

}  // namespace qkgeom
