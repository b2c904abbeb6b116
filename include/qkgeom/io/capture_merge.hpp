// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_check.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// What `merge_parts` has made.
struct merged_capture {
  index_t parts = 0, documents = 0, shards = 0, rows = 0;
  index_t linked = 0, copied = 0;  ///< files
};

/// Makes of the parts of a capture, given in any order, the capture that one process would have made, byte for byte, in
/// the folder `out`: files are hard links where the file system has them, else copies whose SHA-256 is compared, and
/// manifest.json comes last. Throws `error` if a folder holds no part, if the parts differ in model, settings, draws,
/// documents or weights, if one is missing or there twice, or if `out` holds anything; then `out` is left without what
/// was begun.
merged_capture merge_parts(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& out);

}  // namespace qkgeom
