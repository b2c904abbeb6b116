// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/captured_layer.hpp"
#include "qkgeom/io/safetensors_file.hpp"

namespace qkgeom {

/// Reads a capture: a folder with manifest.json and shards, or one safetensors file. Shards are opened when a layer is
/// read from them. Throws `error` naming file and tensor where a file disagrees with the format or the manifest. Copies
/// share the open files; several threads may read.
class capture {
 public:
  /// Opens a folder or a single file and checks its manifest.
  static capture open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return state_->path; }
  const capture_manifest& manifest() const { return state_->manifest; }
  index_t n_shards() const { return static_cast<index_t>(state_->files.size()); }
  /// Numbers of the captured layers in the manifest's order.
  std::vector<index_t> layers() const;

  /// The rows of a layer in one shard, in place where the file is aligned.
  captured_layer read_layer(index_t layer, index_t shard) const;
  /// The rows of a layer in all shards: in place if there is one shard, else copied together.
  captured_layer read_layer(index_t layer) const;

  /// Bytes of the file of a shard; 0 if it is not there.
  index_t bytes(index_t shard) const;

  /// The file of a shard, for tensors beyond the rows. A shard of a folder must carry the folder's manifest.
  std::shared_ptr<const safetensors_file> file(index_t shard) const;

 private:
  struct state {
    std::filesystem::path path;
    capture_manifest manifest;
    std::vector<std::shared_ptr<const safetensors_file>> files;  // null: not opened yet
    std::mutex mutex;
  };
  explicit capture(std::shared_ptr<state> s) : state_(std::move(s)) {}

  static void open_file(state& s);
  static void open_folder(state& s);

  template <class Read>
  captured_layer assemble(index_t number, Read read) const;

  std::shared_ptr<state> state_;
};

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/capture_reader.hpp"
#endif
