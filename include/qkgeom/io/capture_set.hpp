// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture.hpp"

namespace qkgeom {

/// Captures of one model over different documents, as one capture. The documents of each follow those of the one
/// before: document e of capture c gets the number e + offset of c. Parts of one capture (`--part`) stand in the order
/// of their numbers, and their documents keep their distance. A layer can be read shard by shard, in the memory of one.
class capture_set {
 public:
  capture_set(capture one) : capture_set(std::vector<capture>{std::move(one)}) {}
  /// Throws `error` naming the capture that differs from the first in its model, layers, heads, context length or RoPE
  /// stage, and if one part of a capture is there twice.
  explicit capture_set(std::vector<capture> captures);
  /// Opens folders or single files. Throws `error` if one is named twice: its documents would count twice.
  static capture_set open(const std::vector<std::filesystem::path>& paths);

  const std::vector<capture>& captures() const { return captures_; }
  /// The first capture's; model, layers and context length are the same in all.
  const capture_manifest& manifest() const {
    return changes_.empty() ? captures_[0].manifest() : changes_.back()->manifest;
  }
  std::vector<index_t> layers() const { return captures_[0].layers(); }
  /// One more than the largest document number.
  index_t documents() const { return documents_; }
  /// The documents that the manifests list, numbered over all captures.
  std::vector<captured_document> listed_documents() const;
  index_t n_shards() const { return static_cast<index_t>(shards_.size()); }
  /// Bytes of the shards' files.
  index_t bytes() const {
    index_t sum = 0;
    for (const auto& [c, shard] : shards_) sum += captures_[c].bytes(shard);
    return sum;
  }

  /// Documents of rows, ascending.
  struct row_documents {
    std::vector<std::int32_t> q, k;
  };
  /// The documents that have queries, and those that have keys, in a layer; the shards are read.
  row_documents documents_in(index_t layer) const;
  /// The documents that have a row in some layer, ascending.
  std::vector<std::int32_t> documents_with_rows() const;

  /// The rows of a layer in one shard, with documents numbered over all captures.
  captured_layer read_shard(index_t layer, index_t number) const;
  /// The rows of a layer in all shards of all captures: in place if there is one shard, else copied together.
  captured_layer read_layer(index_t layer) const;
  /// The same captures with the rows of these documents alone, which keep their numbers. Moments of every token and
  /// sums of the forward pass, which are of all documents together, count as absent. Throws `error` if no document is
  /// named, if one is not there, or if no shard holds any of them.
  capture_set only(std::vector<index_t> documents) const;
  /// The same captures as if their context ended at `length` tokens: the rows at positions below it alone. Moments of
  /// every token and sums of the forward pass count as absent. Throws `error` unless 0 < length <= the context.
  capture_set before(index_t length) const;
  /// What a changed set says and reads in place of the captures.
  struct change {
    capture_manifest manifest;
    std::function<captured_layer(captured_layer)> rows;  ///< of a layer
    std::function<index_t(index_t)> tokens;              ///< of a document that has so many
  };
  /// The same captures, read through `c` after what changed them before. Moments of every token and sums of the forward
  /// pass count as absent.
  capture_set changed(change c) const;
  /// False for a set that `only`, `before` or `changed` made.
  bool has_all_rows() const { return only_.empty() && changes_.empty(); }

  /// Takes the pages of a shard out of this process' memory until they are read again.
  void forget(index_t number) const;

 private:
  void check_same_model(const capture& c) const;
  void order_parts();
  /// Whether a document counts, by its number over all captures.
  bool holds(index_t document) const;

  std::vector<capture> captures_;
  std::vector<index_t> offset_;                            // (captures) added to its document numbers
  std::vector<std::pair<std::size_t, index_t>> shards_{};  // capture, shard
  index_t documents_ = 0;
  std::vector<index_t> only_{};                           // ascending; empty: all
  std::vector<std::shared_ptr<const change>> changes_{};  // in their order
};

/// Field of manifest.json: the parts of a head by name, {"rope": [first coordinate, end]}.
inline constexpr const char* head_parts_field = "head_parts";

/// The same captures with the coordinates of one part of each head alone (`head_parts` of the manifest), as heads of
/// that size: of latent attention "nope", before the rotary embedding's coordinates, or "rope", these. The scale of
/// scores stays that of whole heads. Moments of every token and sums of the forward pass count as absent. Throws
/// `error` that names the parts if there is none of that name, or if the rotary embedding rotates some of its
/// coordinates and not others.
capture_set head_part(const capture_set& source, const std::string& name);

}  // namespace qkgeom
