// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Content of progress.json while a capture is unfinished. Of several processes each has a file: rank r above 0
/// progress-r.json, with the shards that it wrote; rank 0 progress.json, with those of earlier runs too.
struct resume_state {
  std::string settings;                ///< the manifest without documents and shards
  std::string inputs;                  ///< SHA-256, see `input_check`
  std::string weights{};               ///< `checkpoint::fingerprint`; "": of a file that has none
  capture_manifest done{};             ///< manifest of the complete shards; unset while there are none
  std::vector<std::string> moments{};  ///< SHA-256 of each block's file of moments so far; "": none, or not known
};

/// Reads FOLDER/progress.json; none if there is no such file.
std::optional<resume_state> read_state(const std::filesystem::path& folder);
/// Reads the files of all processes, by name.
std::vector<resume_state> read_states(const std::filesystem::path& folder);
void write_state(const std::filesystem::path& folder, const resume_state& state, int rank = 0);
/// Removes the files of ranks above 0, whose shards progress.json lists too by then.
void remove_other_states(const std::filesystem::path& folder);
/// Removes progress.json and partial files that a killed program may have left.
void remove_state(const std::filesystem::path& folder);

}  // namespace qkgeom
