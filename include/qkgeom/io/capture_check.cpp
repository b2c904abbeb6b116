// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_check.hpp"

#include <algorithm>
#include <string>

#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

namespace {

/// Reads a shard's rows in all layers and returns their number; `finite` checks their elements too.
index_t read_rows(const capture& c, index_t shard, bool finite) {
  index_t rows = 0;
  for (const index_t number : c.layers()) {
    const captured_layer layer = c.read_layer(number, shard);
    if (finite) check_finite(layer);
    rows += layer.q.rows + layer.k.rows;
  }
  return rows;
}

/// Throws `error` unless the counts of each layer's moments match the tokens of the documents.
void check_counts(const capture& c, const std::vector<moments_file>& files) {
  const auto& m = c.manifest();
  if (!m.documents) return;
  index_t skipped = 0;
  if (m.extra.contains("skip_first"))
    skipped = json_value(m.extra, c.path().string() + ": manifest")["skip_first"].integer(0, largest_position);
  index_t tokens = 0;
  for (const captured_document& d : *m.documents) tokens += std::max<index_t>(0, d.tokens - skipped);
  for (const index_t layer : c.layers()) {
    index_t queries = 0, keys = 0;
    for (const auto& file : files) {
      const token_moments found = file.read(layer);
      queries += found.moments.q[0].total.count;
      keys += found.moments.k[0].total.count;
    }
    require(queries == tokens && keys == tokens, c.path().string(), ": the moments of layer ", layer, " count ",
            queries, " queries and ", keys, " keys, but the documents have ", tokens, " tokens");
  }
}

}  // namespace

void check_digest(const std::filesystem::path& file, const std::string& digest) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  const mapped_file mapped(file);
  sha256 found;
  for (auto rest = mapped.bytes(); !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
    const auto next = rest.first(std::min(piece, rest.size()));
    found.add(next);
    mapped.forget(next);
  }
  require(found.hex() == digest, file.string(),
          " is damaged: its SHA-256 is not that of the file that was written; restore it, or capture again");
}

void check_shard(const std::filesystem::path& folder, const captured_shard& shard) {
  const auto file = folder / shard.file;
  require(std::filesystem::exists(file), file.string(), ": the shard is missing");
  if (!shard.sha256.empty()) return check_digest(file, shard.sha256);
  const index_t rows = read_rows(capture::open(file), 0, false);
  require(rows == shard.rows, file.string(), " is damaged: it holds ", rows, " rows of queries and keys, not ",
          shard.rows);
}

index_t check_moments(const capture& c) {
  const auto& extra = c.manifest().extra;
  if (!extra.contains(moments_hashes_field)) return 0;
  const json_value list(extra[moments_hashes_field], (c.path() / "manifest.json").string(), moments_hashes_field);
  const auto digests = list.entries();
  const index_t first = first_moment_block(c.manifest(), (c.path() / "manifest.json").string());
  for (std::size_t b = 0; b < digests.size(); ++b)
    check_digest(c.path() / moments_name(first + static_cast<index_t>(b)), digests[b].string());
  return static_cast<index_t>(digests.size());
}

checked_capture check_capture(const capture& c) {
  checked_capture found;
  const auto& m = c.manifest();
  found.shards = c.n_shards();
  found.documents = m.documents ? static_cast<index_t>(m.documents->size()) : 0;
  for (index_t s = 0; s < c.n_shards(); ++s) {
    if (!m.shards.empty() && !m.shards[s].sha256.empty()) {
      check_shard(c.path(), m.shards[s]);
      ++found.hashed;
    }
    found.rows += read_rows(c, s, true);
    c.file(s)->forget();
  }
  found.hashed += check_moments(c);
  const auto moments = open_moments(c);
  found.moments = static_cast<index_t>(moments.size());
  if (!moments.empty()) check_counts(c, moments);
  return found;
}

}  // namespace qkgeom
