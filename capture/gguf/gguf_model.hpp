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

/// Order of a tensor's rows in a file; the rows belong to `heads` heads.
enum class row_order {
  own,     ///< as in transformers
  paired,  ///< row j of a head of d lies at 2 j, row j + d / 2 at 2 j + 1
  by_kind  ///< all of q, then k, then v; in transformers q, k and v of head 0, of head 1, ...
};

/// Order of a delta net's value heads in rows or columns from `first` on: the first of each key head, then the second,
/// ...; in transformers those of key head 0, of key head 1, ...
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

/// A tensor of a model under transformers' name, or one expert's part of a tensor.
struct named_tensor {
  std::string name;
  std::shared_ptr<const gguf_file> file;
  gguf_tensor tensor;
  row_order order = row_order::own;
  index_t heads = 0;
  std::optional<tiled_heads> tiled{};
  bool decays = false;  ///< stored entries are -exp of the entries
  float plus = 0;       ///< added to stored entries
  /// The value part of latent attention's matrix, whose heads have `plain` rows of a key and then the rows of a value;
  /// `tensor` holds the rows of keys as columns, head by head.
  std::shared_ptr<const named_tensor> values{};
  index_t plain = 0;

  /// Widens rows [first, first + count) of `width` entries, in transformers' order.
  void widen(index_t first, index_t count, index_t width, float* out) const;

 private:
  index_t stored_row(index_t row) const;
  void widen_latent(index_t first, index_t count, index_t width, float* out) const;
};

/// A model in GGUF, with the content of config.json, weights and tokenizer.json.
class gguf_model {
 public:
  /// Reads a file, or the set that it begins. Throws `error` on an architecture that is not supported, by name, and on
  /// missing or broken content.
  explicit gguf_model(const std::filesystem::path& path);

  /// Returns the fields of a config.json of the same model.
  const json& config() const { return config_; }
  const std::vector<named_tensor>& tensors() const { return tensors_; }
  /// Counts the tensors of each type, for the manifest: {"Q4_1": 210, "F32": 61}.
  json types() const;
  /// Returns the number of bytes behind the last tensors of all files (`gguf_file::padding`).
  std::size_t padding() const {
    std::size_t n = 0;
    for (const auto& file : files_) n += file->padding();
    return n;
  }
  /// Returns whether the file says how its tokenizer splits text, where that is not SentencePiece's way.
  bool names_text_rule() const { return has("tokenizer.ggml.pre") || value("tokenizer.ggml.model").raw() != "gpt2"; }
  /// Returns the content of a tokenizer.json of the same tokenizer. Throws `error`, which names --tokenizer, if its
  /// kind is not supported.
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

/// Finds the file that a --model names: a GGUF file, the only one (or only set) in a folder without config.json, or
/// "ollama:MODEL:TAG" in Ollama's store ($OLLAMA_MODELS, else ~/.ollama/models). Returns an empty path without one.
std::filesystem::path find_gguf(const std::filesystem::path& model);

}  // namespace qkgeom
