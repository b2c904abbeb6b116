// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <iosfwd>

#include "capture/evaluate/evaluate.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/head_changes.hpp"

namespace qkgeom {

/// A model of the same shape from which heads get their old weights back.
class restoring {
 public:
  /// Opens the model in the folder `from`. Throws `error` unless its attention has the shape of `model`'s, with
  /// projections of queries and keys.
  restoring(const decoder_description& model, const std::filesystem::path& from);

  /// Copies `weights` and puts the query and key projections that a condition restores in their place: weights, biases,
  /// and norms of queries and keys. A norm that all heads of a layer share is restored with all of them; else a note on
  /// `notes` says that it stays. Throws `error` if tensors have other shapes or types, or are quantised.
  checkpoint restored(const checkpoint& weights, const condition& c, std::ostream& notes) const;

 private:
  const decoder_description& model_;
  checkpoint from_;
  std::string prefix_;
};

/// Writes the model of the options with what their only condition restores: model.safetensors, config.json and the
/// files of the tokenizer, into `folder`. Throws `error`, also if the condition makes other changes.
void write_restored(const evaluation_options& options, const std::filesystem::path& folder, std::ostream& notes);

}  // namespace qkgeom
