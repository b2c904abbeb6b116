// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Content of progress.json while a capture is unfinished.
struct resume_state {
  std::string settings;     ///< the manifest without documents and shards
  std::string inputs;       ///< SHA-256, see `input_check`
  capture_manifest done{};  ///< manifest of the complete shards; unset while there are none
};

/// Reads FOLDER/progress.json; none if there is no such file.
std::optional<resume_state> read_state(const std::filesystem::path& folder);
void write_state(const std::filesystem::path& folder, const resume_state& state);
/// Removes progress.json and partial files that a killed program may have left.
void remove_state(const std::filesystem::path& folder);

}  // namespace qkgeom
