// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "capture/documents.hpp"
#include "capture/plan.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Options of a whole capture.
struct capture_options {
  std::filesystem::path model;        ///< folder with config.json and weights
  std::filesystem::path tokenizer{};  ///< empty: tokenizer.json in the model's folder, else in the folder above
  std::filesystem::path out;
  std::string rope_scaling{};  ///< as `with_rope_scaling` takes it; empty: config.json's
  document_options documents{};
  plan_options plan{};
  int threads = 0;  ///< 0: as many as the machine has cores
  bool resume = false;
};

/// What a capture did.
struct capture_summary {
  index_t documents = 0, empty = 0, tokens = 0;  ///< tokens of this run
  index_t rows = 0, shards = 0;                  ///< of the whole capture, with what an earlier run wrote
  std::uintmax_t bytes = 0;
  double seconds = 0;  ///< of the forward passes and writing
  bool was_complete = false;
};

/// Text and a checkpoint in, a capture folder out. A shard holds a few documents and is written whole; progress.json
/// names the complete ones until manifest.json ends the capture. With `resume` the complete shards are kept, and the
/// folder is at the end byte for byte what an undisturbed run writes. Notes (documents without tokens) go to `notes`.
/// Throws `error`.
capture_summary run_capture(const capture_options& options, std::ostream& notes);

}  // namespace qkgeom
