// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capture/forward/forward_pass.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/safetensors_write.hpp"

namespace qkgeom {

/// What is to be found of every document while it passes through the model.
struct document_analysis_options {
  std::vector<std::string> covariances{"diagonal", "joint"};  ///< query models, the first is the headline
  bool heatmap = false;
  /// Captures with moments of every token, whose query models hold for all documents; none: each document's own.
  std::vector<std::filesystem::path> models_of{};
};

/// Analyses of documents whose rows nobody keeps, given by who runs a capture: it feeds them, stores what they find
/// with the shard, and has the tables written at the end.
class live_analysis {
 public:
  virtual ~live_analysis() = default;

  /// What the manifest is to say of them beside their options.
  virtual json settings() = 0;
  /// Makes room for the documents of the next batch, empty ones too; the sink counts from the first of them. `more`
  /// will follow before `clear`.
  virtual void add_documents(index_t count, index_t more) = 0;
  /// Takes queries and keys as they enter the attention. Empty where a forward pass feeds the analyses by itself.
  virtual batch_sinks::layer_sink sink() = 0;
  /// What was found since `clear`, as tensors of a shard, valid until the next call.
  virtual std::vector<tensor_to_write> tensors() const = 0;
  virtual void clear() = 0;
  /// Writes the tables of the finished capture in `folder`, from its shards.
  virtual void write_tables(const std::filesystem::path& folder) = 0;
};

/// Makes them for a capture as its manifest plans it.
using live_analysis_factory =
    std::function<std::unique_ptr<live_analysis>(const capture_manifest& plan, const document_analysis_options&)>;

}  // namespace qkgeom
