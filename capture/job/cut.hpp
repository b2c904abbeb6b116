// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "capture/job/batches.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// How a capture is cut: shards of documents, and tasks of shards, of which a part has some. Documents and options
/// alone decide it.
struct capture_cut {
  std::vector<index_t> lengths;        ///< of the documents, tokens
  std::vector<std::size_t> blocks;     ///< each document's block of moments
  std::vector<document_range> shards;  ///< documents of each
  std::vector<shard_range> tasks;      ///< shards of each
  std::size_t first_task, end_task;    ///< of the part
  std::size_t first_shard, end_shard;  ///< likewise

  /// Throws `error` if there are more parts than tasks.
  capture_cut(const std::vector<captured_document>& documents, bool moments, const capture_part& part);

  std::size_t block_of(std::size_t shard) const { return blocks[shards[shard].first]; }
  /// The documents of the part.
  document_range documents() const { return {shards[first_shard].first, shards[end_shard - 1].second}; }
  /// Blocks of moments of the part.
  std::pair<std::size_t, std::size_t> moment_range() const {
    return {block_of(first_shard), block_of(end_shard - 1) + 1};
  }
};

/// Fields of manifest.json that a part has in place of the whole capture's.
json part_fields(const capture_part& part, const capture_manifest& whole, const capture_cut& cut);

}  // namespace qkgeom
