// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_reader.hpp"

namespace qkgeom {

/// Captures of one model over different documents, as one capture. The documents of each follow those of the one
/// before: document e of capture c gets the number e + offset of c. A layer can be read shard by shard, in the memory
/// of one.
class capture_set {
 public:
  capture_set(capture one) : capture_set(std::vector<capture>{std::move(one)}) {}
  /// Throws `error` naming the capture that differs from the first in its model, layers, heads, context length or RoPE
  /// stage.
  explicit capture_set(std::vector<capture> captures) : captures_(std::move(captures)) {
    require(!captures_.empty(), "capture_set: at least one capture is needed");
    for (const auto& c : captures_) {
      check_same_model(c);
      offset_.push_back(documents_);
      documents_ += documents_of(c);
      require(documents_ <= largest_position, c.path().string(), ": more documents than 32 bits count");
      for (index_t s = 0; s < c.n_shards(); ++s) shards_.emplace_back(offset_.size() - 1, s);
    }
  }
  /// Opens folders or single files. Throws `error` if one is named twice: its documents would count twice.
  static capture_set open(const std::vector<std::filesystem::path>& paths) {
    std::vector<capture> captures;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      captures.push_back(capture::open(paths[i]));
      for (std::size_t j = 0; j < i; ++j)
        require(!std::filesystem::equivalent(paths[i], paths[j]), paths[i].string(), " is named twice");
    }
    return capture_set(std::move(captures));
  }

  const std::vector<capture>& captures() const { return captures_; }
  /// The first capture's; model, layers and context length are the same in all.
  const capture_manifest& manifest() const { return captures_[0].manifest(); }
  std::vector<index_t> layers() const { return captures_[0].layers(); }
  /// One more than the largest document number.
  index_t documents() const { return documents_; }
  /// The documents that the manifests list, numbered over all captures.
  std::vector<captured_document> listed_documents() const {
    std::vector<captured_document> all;
    for (std::size_t c = 0; c < captures_.size(); ++c)
      if (const auto& listed = captures_[c].manifest().documents)
        for (auto e : *listed) {
          e.index += offset_[c];
          if (only_.empty() || std::binary_search(only_.begin(), only_.end(), e.index)) all.push_back(std::move(e));
        }
    return all;
  }
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
  row_documents documents_in(index_t layer) const {
    row_documents found;
    for (const auto& [c, shard] : shards_) {
      const auto rows = captures_[c].read_layer(layer, shard);
      add_documents(rows.q, static_cast<std::int32_t>(offset_[c]), found.q);
      add_documents(rows.k, static_cast<std::int32_t>(offset_[c]), found.k);
      captures_[c].file(shard)->forget();
    }
    return found;
  }
  /// The documents that have a row in some layer, ascending.
  std::vector<std::int32_t> documents_with_rows() const {
    std::vector<std::int32_t> all;
    for (const index_t layer : layers()) {
      const auto found = documents_in(layer);
      for (const auto* side : {&found.q, &found.k}) all.insert(all.end(), side->begin(), side->end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  /// The rows of a layer in one shard, with documents numbered over all captures.
  captured_layer read_shard(index_t layer, index_t number) const {
    const auto [c, shard] = shards_[number];
    auto rows = captures_[c].read_layer(layer, shard);
    if (offset_[c] > 0)
      for (auto* side : {&rows.q, &rows.k}) shift_documents(*side, static_cast<std::int32_t>(offset_[c]));
    if (!only_.empty())
      for (auto* side : {&rows.q, &rows.k}) *side = rows_of(std::move(*side), only_);
    return rows;
  }
  /// The rows of a layer in all shards of all captures: in place if there is one shard, else copied together.
  captured_layer read_layer(index_t layer) const {
    if (captures_.size() == 1 && only_.empty()) return captures_[0].read_layer(layer);
    auto all = read_shard(layer, 0);
    std::vector<captured_side> q{std::move(all.q)}, k{std::move(all.k)};
    for (index_t p = 1; p < n_shards(); ++p) {
      auto next = read_shard(layer, p);
      q.push_back(std::move(next.q));
      k.push_back(std::move(next.k));
    }
    all.q = detail::join(std::move(q), captures_[0].path().string());
    all.k = detail::join(std::move(k), captures_[0].path().string());
    return all;
  }
  /// The same captures with the rows of these documents alone, which keep their numbers. Moments of every token and
  /// sums of the forward pass, which are of all documents together, count as absent. Throws `error` if no document is
  /// named, if one is not there, or if no shard holds any of them.
  capture_set only(std::vector<index_t> documents) const {
    require(!documents.empty(), "capture_set: name at least one document");
    std::sort(documents.begin(), documents.end());
    documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
    require(documents.front() >= 0 && documents.back() < documents_, "capture_set: there is no document ",
            documents.front() < 0 ? documents.front() : documents.back(), " of ", documents_);
    auto some = *this;
    std::erase_if(some.shards_, [&](const auto& shard) {
      const auto& listed = captures_[shard.first].manifest().shards;
      if (listed.empty()) return false;  // a single file may hold any
      const auto& held = listed[shard.second].documents;
      return std::none_of(held.begin(), held.end(), [&](index_t e) {
        return std::binary_search(documents.begin(), documents.end(), e + offset_[shard.first]);
      });
    });
    require(!some.shards_.empty(), "capture_set: no shard holds document ", documents.front(),
            documents.size() > 1 ? ", nor the others asked for" : "");
    some.only_ = std::move(documents);
    return some;
  }
  /// False for a set that `only` made.
  bool has_all_documents() const { return only_.empty(); }

  /// Takes the pages of a shard out of this process' memory until they are read again.
  void forget(index_t number) const {
    const auto [c, shard] = shards_[number];
    captures_[c].file(shard)->forget();
  }

 private:
  void check_same_model(const capture& c) const {
    const auto &first = manifest(), &m = c.manifest();
    const auto same = [&](bool equal, const char* what) {
      require(equal, c.path().string(), ": its ", what, " differs from that of ", captures_[0].path().string(),
              ": only captures of one model can be read as one");
    };
    same(first.model == m.model, "model");
    same(first.context_length == m.context_length, "context_length");
    same(first.rope_stage == m.rope_stage, "rope_stage");
    same(first.layers == m.layers, "list of layers and heads");
  }

  static index_t documents_of(const capture& c) {
    index_t last = -1;
    const auto& m = c.manifest();
    if (m.documents)
      for (const auto& e : *m.documents) last = std::max(last, e.index);
    for (const auto& s : m.shards)
      for (const index_t e : s.documents) last = std::max(last, e);
    if (last >= 0) return last + 1;
    for (const index_t layer : c.layers()) {
      const auto rows = c.read_layer(layer);
      for (const auto* side : {&rows.q, &rows.k})
        for (const std::int32_t e : side->document) last = std::max<index_t>(last, e);
    }
    return last + 1;
  }

  /// Appends the documents of rows, which are in the order of documents, if they are wanted.
  void add_documents(const captured_side& side, std::int32_t offset, std::vector<std::int32_t>& to) const {
    for (const std::int32_t e : side.document) {
      const std::int32_t id = e + offset;
      if (!to.empty() && to.back() == id) continue;
      if (only_.empty() || std::binary_search(only_.begin(), only_.end(), index_t{id})) to.push_back(id);
    }
  }

  static void shift_documents(captured_side& side, std::int32_t by) {
    auto shifted = std::make_shared<std::vector<std::int32_t>>(side.document.begin(), side.document.end());
    for (auto& e : *shifted) e += by;
    side.document = {shifted->data(), static_cast<index_t>(shifted->size())};
    side.owners.push_back(std::move(shifted));
  }

  /// The rows of some documents. Rows are in the order of documents, so that these are runs.
  static captured_side rows_of(captured_side side, const std::vector<index_t>& documents) {
    const std::string file = side.file;
    const std::size_t width = side.rows > 0 ? side.bytes() / side.rows : 0;
    std::vector<captured_side> runs;
    for (index_t from = 0, to = 0; from < side.rows; from = to) {
      const bool wanted = std::binary_search(documents.begin(), documents.end(), index_t{side.document[from]});
      for (to = from + 1; to < side.rows && side.document[to] == side.document[from];) ++to;
      if (!wanted) continue;
      runs.push_back(side);
      auto& run = runs.back();
      run.rows = to - from;
      run.data += from * width;
      for (auto* values : {&run.position, &run.document, &run.token})
        if (values->size == side.rows) *values = {values->data + from, run.rows};
    }
    if (!runs.empty()) return detail::join(std::move(runs), file);
    side.rows = 0;
    side.position = side.document = side.token = {};
    return side;
  }

  std::vector<capture> captures_;
  std::vector<index_t> offset_;                            // (captures) added to its document numbers
  std::vector<std::pair<std::size_t, index_t>> shards_{};  // capture, shard
  index_t documents_ = 0;
  std::vector<index_t> only_{};  // ascending; empty: all
};

}  // namespace qkgeom
