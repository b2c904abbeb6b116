// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// What progress.json holds while a capture is under way.
struct resume_state {
  std::string settings;     ///< the manifest without documents and shards
  std::string inputs;       ///< SHA-256 over documents, token ids and samples of the weights
  capture_manifest done{};  ///< the manifest of the shards that are complete; without shards so far it says nothing
};

/// Reads FOLDER/progress.json; none if it is not there.
std::optional<resume_state> read_state(const std::filesystem::path& folder);
void write_state(const std::filesystem::path& folder, const resume_state& state);
/// Removes progress.json and what a killed program may have left of it.
void remove_state(const std::filesystem::path& folder);

}  // namespace qkgeom
