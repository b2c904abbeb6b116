// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Moments of every token are written in at most that many files, a block of documents each.
inline constexpr std::size_t most_moment_blocks = 10;

/// How many blocks documents are dealt to, by the tokens of all: as many as may be and have a document with tokens, at
/// least one.
std::size_t moment_blocks(std::span<const index_t> tokens);
/// The block of each document: those that have tokens are dealt evenly, in their order.
std::vector<std::size_t> moment_blocks_of(std::span<const index_t> tokens);

/// Short documents share a shard until it has that many tokens. Part of the output: the same documents, the same
/// shards.
inline constexpr index_t shard_tokens = 16384;

/// Numbers [first, second) of documents that follow one another.
using document_range = std::pair<std::size_t, std::size_t>;

/// The documents of each shard, by the tokens of all documents. `by_block`: those of a shard are of one block of
/// moments.
std::vector<document_range> shards_of(std::span<const index_t> tokens, bool by_block);

/// Where the batch ends that begins with document `first`: documents before `end` that have at most `most` tokens in
/// all, and at least one document. Those of a batch share a visit of each layer's weights; the output does not depend
/// on it.
std::size_t batch_end(std::span<const index_t> tokens, std::size_t first, std::size_t end, index_t most);

}  // namespace qkgeom
