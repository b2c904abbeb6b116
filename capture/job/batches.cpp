// SPDX-License-Identifier: MIT
#include "capture/job/batches.hpp"

#include <algorithm>

namespace qkgeom {
namespace {

std::size_t with_tokens(std::span<const index_t> tokens) {
  return std::count_if(tokens.begin(), tokens.end(), [](index_t n) { return n > 0; });
}

}  // namespace

std::size_t moment_blocks(std::span<const index_t> tokens) {
  return std::clamp<std::size_t>(with_tokens(tokens), 1, most_moment_blocks);
}

std::vector<std::size_t> moment_blocks_of(std::span<const index_t> tokens) {
  const std::size_t documents = std::max<std::size_t>(1, with_tokens(tokens)), blocks = moment_blocks(tokens);
  std::vector<std::size_t> block;
  std::size_t before = 0;
  for (const index_t n : tokens) {
    block.push_back(std::min(before, documents - 1) * blocks / documents);
    before += n > 0;
  }
  return block;
}

std::vector<document_range> shards_of(std::span<const index_t> tokens, bool by_block) {
  const std::vector<std::size_t> block = by_block ? moment_blocks_of(tokens) : std::vector<std::size_t>(tokens.size());
  std::vector<document_range> ranges;
  index_t sum = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += tokens[i];
    if (sum < shard_tokens && i + 1 < tokens.size() && block[i + 1] == block[i]) continue;
    ranges.emplace_back(begin, i + 1);
    begin = i + 1;
    sum = 0;
  }
  return ranges;
}

std::size_t batch_end(std::span<const index_t> tokens, std::size_t first, std::size_t end, index_t max_tokens) {
  index_t sum = tokens[first];
  std::size_t i = first + 1;
  while (i < end && sum + tokens[i] <= max_tokens) sum += tokens[i++];
  return i;
}

}  // namespace qkgeom
