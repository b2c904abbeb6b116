// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Most files of moments of every token; each holds a block of documents.
inline constexpr std::size_t most_moment_blocks = 10;

/// Number of blocks for documents of these lengths: as many as there are documents with tokens, from 1 to
/// `most_moment_blocks`.
std::size_t moment_blocks(std::span<const index_t> tokens);
/// Block of each document. Documents with tokens are spread evenly, in order.
std::vector<std::size_t> moment_blocks_of(std::span<const index_t> tokens);

/// Short documents share a shard until it has this many tokens. A constant, since shards are part of the output.
inline constexpr index_t shard_tokens = 16384;

/// Half-open range of document indices.
using document_range = std::pair<std::size_t, std::size_t>;

/// The documents of each shard. `by_block`: a shard's documents belong to one block of moments.
std::vector<document_range> shards_of(std::span<const index_t> tokens, bool by_block);

/// End of the batch that begins with document `first`: at least one document, and more before `end` while they have at
/// most `max_tokens` tokens together. A batch shares each visit of a layer's weights; the output does not depend on it.
std::size_t batch_end(std::span<const index_t> tokens, std::size_t first, std::size_t end, index_t max_tokens);

}  // namespace qkgeom
