// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Content of progress.json while a capture is unfinished.
struct resume_state {
  std::string settings;                ///< the manifest without documents and shards
  std::string inputs;                  ///< SHA-256, see `input_check`
  std::string weights{};               ///< `checkpoint::fingerprint`; "": of a file that has none
  capture_manifest done{};             ///< manifest of the complete shards; unset while there are none
  std::vector<std::string> moments{};  ///< SHA-256 of each block's file of moments up to the last complete shard
};

/// Reads FOLDER/progress.json; none if there is no such file.
std::optional<resume_state> read_state(const std::filesystem::path& folder);
void write_state(const std::filesystem::path& folder, const resume_state& state);
/// Removes progress.json and partial files that a killed program may have left.
void remove_state(const std::filesystem::path& folder);

}  // namespace qkgeom
