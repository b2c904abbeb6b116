// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/gguf/architecture.hpp"
#include "capture/gguf/gguf_file.hpp"

namespace qkgeom {

/// How rows of a tensor lie in a file, of `heads` heads.
enum class row_order {
  own,     ///< as in transformers
  paired,  ///< row j of a head of d lies at 2 j, row j + d / 2 at 2 j + 1
  by_kind  ///< all of q, then k, then v, of a matrix that has q, k and v of head 0, of head 1, ... in transformers
};

/// Value heads of a delta net, in rows or columns from `first` on: the first of each key head, then the second, ...;
/// in transformers those of key head 0, of key head 1, ...
struct tiled_heads {
  index_t key_heads, group, width;  ///< `group` value heads of `width` rows or columns per key head
  index_t first = 0;
  bool columns = false;

  index_t stored(index_t i) const {
    if (i < first) return i;
    const index_t head = (i - first) / width;
    return first + ((head % group) * key_heads + head / group) * width + (i - first) % width;
  }
};

/// A tensor of a model under the name that transformers gives it, or one expert's part of a tensor.
struct named_tensor {
  std::string name;
  std::shared_ptr<const gguf_file> file;
  gguf_tensor tensor;
  row_order order = row_order::own;
  index_t heads = 0;
  std::optional<tiled_heads> tiled{};
  bool decays = false;  ///< stored is -exp of an entry
  float plus = 0;       ///< stored entries are larger by it
  /// Of latent attention, whose matrix has the `plain` rows of a head's key and then the rows of its value: `tensor`
  /// holds the rows of keys as columns, head by head, and this one those of values.
  std::shared_ptr<const named_tensor> values{};
  index_t plain = 0;

  /// Rows [first, first + count) of `width` entries, as transformers has them.
  void widen(index_t first, index_t count, index_t width, float* out) const;

 private:
  index_t stored_row(index_t row) const;
  void widen_latent(index_t first, index_t count, index_t width, float* out) const;
};

/// A model in GGUF: what config.json, the weights and tokenizer.json say elsewhere.
class gguf_model {
 public:
  /// Reads a file, or the set that it is the first of. Throws `error` on an architecture that is not supported, by
  /// name, and on what is missing or broken.
  explicit gguf_model(const std::filesystem::path& path);

  /// The fields of a config.json of the same model.
  const json& config() const { return config_; }
  const std::vector<named_tensor>& tensors() const { return tensors_; }
  /// The tensors of each type, for the manifest: {"Q4_1": 210, "F32": 61}.
  json types() const;
  /// What a tokenizer.json of the same tokenizer holds. Throws `error`, which names --tokenizer, if its kind is not
  /// supported.
  json tokenizer() const;

 private:
  json_value value(const std::string& key) const;
  bool has(const std::string& key) const { return metadata().contains(key); }
  const json& metadata() const { return files_[0]->metadata(); }
  void check_parts() const;
  void name_tensors(const gguf_architecture& architecture, const architecture_keys& keys);
  void read_config(const gguf_architecture& architecture, const architecture_keys& keys);
  void read_rope(const architecture_keys& keys);
  json read_scaling(const architecture_keys& keys, const std::string& type) const;
  void name_dense_layers();
  void join_latent(index_t heads);

  std::vector<std::shared_ptr<const gguf_file>> files_;
  std::string where_;
  json config_;
  std::vector<named_tensor> tensors_;
};

/// The file that a --model names: a GGUF file, the only one in a folder without config.json, or "ollama:MODEL:TAG" in
/// Ollama's store ($OLLAMA_MODELS, else ~/.ollama/models). Empty: none.
std::filesystem::path find_gguf(const std::filesystem::path& model);

}  // namespace qkgeom
