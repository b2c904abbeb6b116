// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture.hpp"

namespace qkgeom {

/// Captures of one model over different documents, as one capture. Document e of capture c gets the number e + offset
/// of c, after the documents of earlier captures. Parts of one capture (`--part`) are sorted by their numbers, and
/// their documents keep their distances. A layer can be read shard by shard, in the memory of one.
class capture_set {
 public:
  capture_set(capture one) : capture_set(std::vector<capture>{std::move(one)}) {}
  /// Joins captures. Throws `error` naming the capture that differs from the first in its model, layers, heads, context
  /// length, RoPE stage or rotary embedding, and if one part of a capture is there twice.
  explicit capture_set(std::vector<capture> captures);
  /// Opens folders or single files. Throws `error` if one is named twice: its documents would count twice.
  static capture_set open(const std::vector<std::filesystem::path>& paths);

  const std::vector<capture>& captures() const { return captures_; }
  /// Returns the first capture's manifest, or a changed set's; model, layers and context length are the same in all.
  const capture_manifest& manifest() const {
    return changes_.empty() ? captures_[0].manifest() : changes_.back()->manifest;
  }
  std::vector<index_t> layers() const { return captures_[0].layers(); }
  /// Returns the largest document number plus one.
  index_t documents() const { return documents_; }
  /// Lists the documents of the manifests, numbered over all captures.
  std::vector<captured_document> listed_documents() const;
  /// Tokens of a document: as it counts now, and as it had when its rows were rotated, which the frequencies of some
  /// models depend on.
  struct document_tokens {
    index_t now = 0, rotated = 0;
  };
  /// Returns them for the documents that the manifests list, by number.
  std::map<index_t, document_tokens> tokens() const;
  index_t n_shards() const { return static_cast<index_t>(shards_.size()); }
  /// Returns the bytes of the shards' files.
  index_t bytes() const {
    index_t sum = 0;
    for (const auto& [c, shard] : shards_) sum += captures_[c].bytes(shard);
    return sum;
  }

  /// Document numbers of rows, ascending.
  struct row_documents {
    std::vector<std::int32_t> q, k;
  };
  /// Lists the documents with queries, and those with keys, in a layer; reads the shards.
  row_documents documents_in(index_t layer) const;
  /// Lists the documents that have a row in some layer, ascending.
  std::vector<std::int32_t> documents_with_rows() const;

  /// Reads the rows of a layer in one shard, with documents numbered over all captures.
  captured_layer read_shard(index_t layer, index_t number) const;
  /// Reads the rows of a layer in all shards of all captures: in place if there is one shard, else copied together.
  captured_layer read_layer(index_t layer) const;
  /// Returns the same captures with the rows of these documents alone, which keep their numbers. Moments of every token
  /// and sums of the forward pass belong to all documents together and count as absent. Throws `error` if no document
  /// is named, if one does not exist, or if no shard holds any of them.
  capture_set only(std::vector<index_t> documents) const;
  /// Returns the same captures cut to a context of `length` tokens: rows at positions below it alone. Moments of every
  /// token and sums of the forward pass count as absent. Throws `error` unless 0 < length <= the context.
  capture_set before(index_t length) const;
  /// A change to a set: its manifest, and functions that change what the captures hold.
  struct change {
    capture_manifest manifest;
    std::function<captured_layer(captured_layer)> rows;  ///< changes a layer's rows
    std::function<index_t(index_t)> tokens;              ///< changes a document's number of tokens
    bool rotates = false;                                ///< `rows` rotates rows as documents of `tokens` have them
  };
  /// Returns the same captures changed by `c` after earlier changes. Moments of every token and sums of the forward
  /// pass count as absent.
  capture_set changed(change c) const;
  /// Returns false for a set that `only`, `before` or `changed` made.
  bool has_all_rows() const { return only_.empty() && changes_.empty(); }

  /// Releases the pages of a shard from this process' memory until they are read again.
  void forget(index_t number) const;

 private:
  void check_same_model(const capture& c) const;
  void order_parts();
  document_tokens tokens_of(const captured_document& e) const;
  /// Returns whether the set includes a document, by its number over all captures.
  bool holds(index_t document) const;

  std::vector<capture> captures_;
  std::vector<index_t> offset_;                            // (captures) offset of document numbers
  std::vector<std::pair<std::size_t, index_t>> shards_{};  // capture, shard
  index_t documents_ = 0;
  std::vector<index_t> only_{};                           // ascending; empty: all
  std::vector<std::shared_ptr<const change>> changes_{};  // in their order
};

/// Field of manifest.json: the head parts by name, {"rope": [first coordinate, end]}.
inline constexpr const char* head_parts_field = "head_parts";

/// Returns the same captures with the coordinates of one head part alone (`head_parts` of the manifest), as heads of
/// that size: for latent attention "nope", the coordinates before the rotary embedding's, or "rope", the embedding's.
/// The scale of scores stays that of whole heads. Moments of every token and sums of the forward pass count as absent.
/// Throws `error` that names the head parts if there is none of that name, or if the rotary embedding rotates some
/// coordinates inside and some outside of it.
capture_set head_part(const capture_set& source, const std::string& name);

}  // namespace qkgeom
