// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Content of progress.json while a capture is unfinished. Each process of a group has a file: rank r above 0
/// progress-r.json, with its own shards; rank 0 progress.json, with those of earlier runs too.
struct resume_state {
  std::string settings;                ///< the manifest without documents and shards
  std::string inputs;                  ///< SHA-256, see `input_check`
  std::string weights{};               ///< `checkpoint::fingerprint`; empty: an older file without it
  std::string weight_files{};          ///< `checkpoint::file_stamps` when the weights had this fingerprint
  capture_manifest done{};             ///< manifest of the complete shards; unset while there are none
  std::vector<std::string> moments{};  ///< SHA-256 of each block's file of moments so far; empty: no file, or unknown
};

/// Reads FOLDER/progress.json; returns no value if it does not exist.
std::optional<resume_state> read_state(const std::filesystem::path& folder);
std::vector<resume_state> read_states(const std::filesystem::path& folder);
void write_state(const std::filesystem::path& folder, const resume_state& state, int rank = 0);
/// Removes the files of ranks above 0, once progress.json lists their shards too.
void remove_other_states(const std::filesystem::path& folder);
/// Removes progress.json and partial files of a killed program.
void remove_state(const std::filesystem::path& folder);

}  // namespace qkgeom
