// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Most files of moments of every token; each holds a block of documents.
inline constexpr std::size_t most_moment_blocks = 10;

/// Counts the blocks for documents of these lengths: the number of documents with tokens, clamped to 1 ..
/// `most_moment_blocks`.
std::size_t moment_blocks(std::span<const index_t> tokens);
/// Returns the block of each document. Documents with tokens are spread evenly, in order.
std::vector<std::size_t> moment_blocks_of(std::span<const index_t> tokens);

/// Short documents share a shard until it has this many tokens. A constant, since shards are part of the output.
inline constexpr index_t shard_tokens = 16384;

/// Half-open range of document indices.
using document_range = std::pair<std::size_t, std::size_t>;

/// Divides documents into shards. `by_block`: a shard's documents belong to one block of moments.
std::vector<document_range> shards_of(std::span<const index_t> tokens, bool by_block);

/// Shards [first, second) that one process captures, one after another, while other processes capture others.
using shard_range = std::pair<std::size_t, std::size_t>;

/// Divides shards into tasks, in the order of the documents: one shard each; with `by_block` all shards of a block of
/// moments, since a block's moments are summed in the order of its shards.
std::vector<shard_range> tasks_of(std::span<const document_range> shards, std::span<const std::size_t> block,
                                  bool by_block);

/// Returns the tasks [first, second) of part `number` (from 1) of `of` parts; task t has `tokens[t]` tokens. Every part
/// has a task, and parts have similar numbers of tokens. Throws `error` if there are more parts than tasks.
std::pair<std::size_t, std::size_t> tasks_of_part(std::span<const index_t> tokens, index_t number, index_t of);

/// Returns the end of the batch that begins with document `first`: one document, and more before `end` up to
/// `max_tokens` tokens in all. A batch shares each visit of a layer's weights; the output does not depend on it.
std::size_t batch_end(std::span<const index_t> tokens, std::size_t first, std::size_t end, index_t max_tokens);

/// The cut of a capture: shards of documents, tasks of shards, and the tasks of its part. It depends on documents and
/// options alone.
struct capture_cut {
  std::vector<index_t> lengths;        ///< of the documents, tokens
  std::vector<std::size_t> blocks;     ///< each document's block of moments
  std::vector<document_range> shards;  ///< documents of each
  std::vector<shard_range> tasks;      ///< tasks of the part
  std::size_t first_task, end_task;    ///< shards of the part
  std::size_t first_shard, end_shard;  ///< shards of the part

  /// Throws `error` if there are more parts than tasks.
  capture_cut(const std::vector<captured_document>& documents, bool moments, const capture_part& part);

  std::size_t block_of(std::size_t shard) const { return blocks[shards[shard].first]; }
  document_range documents() const { return {shards[first_shard].first, shards[end_shard - 1].second}; }
  std::pair<std::size_t, std::size_t> moment_range() const {
    return {block_of(first_shard), block_of(end_shard - 1) + 1};
  }
};

/// Returns the fields of a part's manifest.json that differ from the whole capture's.
json part_fields(const capture_part& part, const capture_manifest& whole, const capture_cut& cut);

}  // namespace qkgeom
