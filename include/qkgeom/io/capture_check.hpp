// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Numbers of what `check_capture` has read.
struct checked_capture {
  index_t shards = 0, rows = 0, documents = 0, moments = 0;  ///< `moments`: files of moments of every token
  index_t hashed = 0;                                        ///< files with a SHA-256 in the manifest
};

/// Manifest field: SHA-256 of each file of moments, by block.
inline constexpr const char* moments_hashes_field = "moments_sha256";

/// Throws `error` unless the file of a shard is the one that was written: by its SHA-256 if known, else by the number,
/// order and positions of its rows.
void check_shard(const std::filesystem::path& folder, const captured_shard& shard);

/// Throws `error` unless the file has this SHA-256.
void check_digest(const std::filesystem::path& file, const std::string& digest);

/// Throws `error` unless the files of moments have the SHA-256 that the manifest lists. Returns their number.
index_t check_moments(const capture& c);

/// Reads a whole capture. Throws `error` naming the file if a SHA-256 differs from the manifest's, if rows disagree
/// with the manifest in number, order, documents or positions, if an element of rows or moments is not finite, or if
/// moments count other tokens than the documents have.
checked_capture check_capture(const capture& c);

}  // namespace qkgeom
