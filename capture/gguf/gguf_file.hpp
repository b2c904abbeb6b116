// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "capture/gguf/block_types.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {

/// A tensor of a GGUF file. Rows are contiguous.
struct gguf_tensor {
  std::string name;
  std::vector<index_t> shape;  ///< slowest first, as in PyTorch
  const block_type* type = nullptr;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// A GGUF file of version 2 or 3, mapped into memory. All of it is checked: `error` names the file and the mistake
/// before memory is allocated for it.
class gguf_file {
 public:
  explicit gguf_file(const std::filesystem::path& path);

  static bool is_one(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const json& metadata() const { return metadata_; }
  const std::map<std::string, gguf_tensor>& tensors() const { return tensors_; }
  /// Returns the number of zero bytes behind the last tensor and its alignment, which no tensor has.
  std::size_t padding() const { return padding_; }
  void forget(const gguf_tensor& t) const { file_.forget({t.data, t.bytes}); }

 private:
  mapped_file file_;
  json metadata_ = json::object();
  std::map<std::string, gguf_tensor> tensors_;
  std::size_t padding_ = 0;
};

/// Lists the files of the split set that `first` belongs to (NAME-00001-of-00003.gguf) in order; else `first` alone.
std::vector<std::filesystem::path> parts_of_gguf(const std::filesystem::path& first);

}  // namespace qkgeom
