// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_check.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Numbers of what `merge_parts` has made.
struct merged_capture {
  index_t parts = 0, documents = 0, shards = 0, rows = 0;
  index_t linked = 0, copied = 0;  ///< files
};

/// Joins the parts of a capture, given in any order, in the folder `out` to the capture that one process would have
/// made, byte for byte: files are hard links if the file system has them, else copies with a compared SHA-256, and
/// manifest.json comes last. Throws `error` if a folder holds no part, if the parts differ in model, settings, draws,
/// documents or weights, if one is missing or there twice, or if `out` holds anything; then files made in `out` are
/// removed again.
merged_capture merge_parts(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& out);

}  // namespace qkgeom
