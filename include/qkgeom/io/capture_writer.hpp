// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {

/// One side of a layer to be written: packed elements (rows, heads, dim) as bytes, and per row a position, a document
/// and, if known, a token id. Owns nothing.
struct side_to_write {
  std::span<const std::byte> data{};
  std::span<const std::int32_t> position{}, document{};
  std::span<const std::int32_t> token{};  ///< empty: no token ids
};

/// A layer's rows to be written; the manifest lists its heads. Owns nothing.
struct layer_to_write {
  index_t layer = 0;
  dtype element = dtype::f32;
  side_to_write q, k;
};

/// Returns the name of shard i in a capture folder: "shard-00007.safetensors".
inline std::string shard_name(index_t i) {
  char name[48];
  std::snprintf(name, sizeof name, "shard-%05lld.safetensors", static_cast<long long>(i));
  return name;
}

/// Writes a capture, or one shard of a capture, as a safetensors file that stands alone: rows of every layer that the
/// manifest lists, `extra` tensors unchanged, and the manifest without its shard list. Throws `error` if the rows
/// disagree with the manifest or cannot be written; then no file is left behind. Returns the file's SHA-256.
std::string write_capture_file(const std::filesystem::path& path, capture_manifest manifest,
                               std::span<const layer_to_write> layers, const std::vector<tensor_to_write>& extra = {});

/// Writes a capture folder one shard at a time. Each shard appears whole or not at all, and `finish` writes
/// manifest.json last: a folder without it is not a capture yet. Throws `error` naming the file on every failure.
class capture_writer {
 public:
  /// Takes a manifest without documents and shards, which `add_shard` fills. Makes the folder if it is missing; refuses
  /// one that holds a finished capture.
  capture_writer(std::filesystem::path folder, capture_manifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {
    std::error_code code;
    std::filesystem::create_directories(folder_, code);
    require(std::filesystem::is_directory(folder_), "cannot make the folder ", folder_.string(), ": ", code.message());
    require(!std::filesystem::exists(folder_ / "manifest.json"), "cannot write a capture to ", folder_.string(),
            ": it already holds one (manifest.json)");
    manifest_.documents.emplace();
    manifest_.shards.clear();
  }

  /// Writes the next shard: the rows of its documents, whose numbers are above those of earlier shards, in every layer.
  const captured_shard& add_shard(const std::vector<captured_document>& documents,
                                  std::span<const layer_to_write> layers,
                                  const std::vector<tensor_to_write>& extra = {}) {
    const auto number = static_cast<index_t>(manifest_.shards.size());
    check_documents(documents, shard_of(number, documents));
    return append_shard(documents, write_shard(number, documents, layers, extra));
  }

  /// Writes the file of shard `number` without counting it: several processes write shards of one folder in any order,
  /// and one of them counts all with `append_shard`. `documents` are in ascending order.
  captured_shard write_shard(index_t number, const std::vector<captured_document>& documents,
                             std::span<const layer_to_write> layers,
                             const std::vector<tensor_to_write>& extra = {}) const {
    captured_shard shard = shard_of(number, documents);
    for (const auto& l : layers) shard.rows += static_cast<index_t>(l.q.position.size() + l.k.position.size());
    capture_manifest own = manifest_;
    own.documents = documents;
    shard.sha256 = write_capture_file(folder_ / shard.file, own, layers, extra);
    return shard;
  }

  /// Counts a shard that `write_shard` or `add_shard` returned, in this run or an earlier one, without reading its file
  /// (`check_shard`).
  const captured_shard& append_shard(const std::vector<captured_document>& documents, captured_shard shard) {
    check_documents(documents, shard);
    manifest_.documents->insert(manifest_.documents->end(), documents.begin(), documents.end());
    manifest_.shards.push_back(std::move(shard));
    return manifest_.shards.back();
  }

  /// Writes manifest.json, which completes the capture. `extra`: fields of manifest.json that shards lack.
  void finish(const json& extra = json::object()) {
    require(!manifest_.shards.empty(), "cannot finish the capture in ", folder_.string(), ": it has no shard");
    auto whole = manifest_;
    whole.extra.update(extra);
    write_text(folder_ / "manifest.json", manifest_text(whole, 1) + '\n');
  }

  const capture_manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  static captured_shard shard_of(index_t number, const std::vector<captured_document>& documents) {
    captured_shard shard{shard_name(number), {}, 0, {}};
    for (const auto& e : documents) shard.documents.push_back(e.index);
    return shard;
  }
  void check_documents(const std::vector<captured_document>& documents, const captured_shard& shard) const {
    index_t last = manifest_.documents->empty() ? -1 : manifest_.documents->back().index;
    require(documents.size() == shard.documents.size(), shard.file, ": ", documents.size(), " examples were given for ",
            shard.documents.size());
    for (std::size_t i = 0; i < documents.size(); ++i) {
      require(documents[i].index > last && documents[i].index == shard.documents[i], "cannot add ", shard.file, " to ",
              folder_.string(), ": example ", documents[i].index, " follows ", last,
              ", but examples must ascend over the shards");
      last = documents[i].index;
    }
  }

  std::filesystem::path folder_;
  capture_manifest manifest_;
};

namespace detail {

/// Adds the tensors of one side after checking them against the manifest.
void add_side(std::vector<tensor_to_write>& tensors, const capture_manifest& manifest, const std::string& target,
              const std::string& name, dtype element, index_t heads, const side_to_write& side,
              const allowed_documents& allowed);

}  // namespace detail

}  // namespace qkgeom
