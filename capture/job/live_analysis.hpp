// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capture/forward/forward_pass.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {

/// Options of the analysis of every document while it passes through the model.
struct live_analysis_options {
  std::vector<std::string> covariances{"diagonal", "joint"};  ///< query models, the first is the headline
  bool heatmap = false;
  /// Captures whose moments of every token give one query model per head for all documents; none: each document's own.
  std::vector<std::filesystem::path> models_of{};
};

/// Analyses each document while it passes through the model, so that its rows need not be stored. The capture feeds it,
/// stores its results with each shard, and has it write the tables at the end.
class live_analysis {
 public:
  virtual ~live_analysis() = default;

  /// Manifest fields of the analysis beside its options.
  virtual json settings() = 0;
  /// Makes room for the documents of the next batch, empty ones too; `sink` numbers them from 0. `more` will follow
  /// before `clear`.
  virtual void add_documents(index_t count, index_t more) = 0;
  /// Takes queries and keys as they enter the attention. Empty if the forward pass feeds the analysis itself.
  virtual batch_sinks::layer_sink sink() = 0;
  /// Results since `clear`, as tensors of a shard, valid until the next call.
  virtual std::vector<tensor_to_write> tensors() const = 0;
  virtual void clear() = 0;
  /// Writes the tables of the finished capture in `folder`, from its shards.
  virtual void write_tables(const std::filesystem::path& folder) = 0;
};

/// Makes the analysis for a capture as its manifest plans it.
using live_analysis_factory =
    std::function<std::unique_ptr<live_analysis>(const capture_manifest& plan, const live_analysis_options&)>;

}  // namespace qkgeom
