// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {

/// Keys of a GGUF file that begin with its architecture's name; their names here lack it: "attention.head_count".
class architecture_keys {
 public:
  architecture_keys(const json& metadata, const std::string& architecture, const std::string& where)
      : metadata_(metadata), prefix_(architecture + '.'), where_(where) {}

  const std::string& where() const { return where_; }
  bool has(const std::string& key) const { return metadata_.contains(prefix_ + key); }
  /// Returns a key's value. Throws `error` that names the key if it is missing.
  json_value operator[](const std::string& key) const { return json_value(metadata_, where_)[(prefix_ + key).c_str()]; }
  index_t integer(const std::string& key, index_t otherwise) const {
    return has(key) ? (*this)[key].integer(1, index_t{1} << 30) : otherwise;
  }
  double positive(const std::string& key, double otherwise) const {
    return has(key) ? (*this)[key].positive() : otherwise;
  }
  bool boolean(const std::string& key, bool otherwise) const { return has(key) ? (*this)[key].boolean() : otherwise; }

 private:
  const json& metadata_;
  std::string prefix_, where_;
};

/// A tensor's name in GGUF and in transformers, without "blk.N." or its like; both without ending, or `gguf` with its
/// only ending and `own` complete.
struct tensor_names {
  std::string_view gguf, own;
};

/// An architecture of GGUF, and the differences of its files from transformers' own.
struct gguf_architecture {
  std::string_view name, model_type;
  std::string_view models{};                                 ///< names in docs/capture.md; empty: `name` will do
  std::vector<std::span<const tensor_names>> layer_names{};  ///< searched in this order, then the common names
  std::string_view embedding = "model.embed_tokens", final_norm = "model.norm", output = "lm_head";
  std::string_view layers = "model.layers.";  ///< prefix of a layer's names
  bool pairs_rows = false;                    ///< the converter reorders the rows of q and k
  bool norms_plus_one = false;                ///< norms are stored as 1 + w
  bool layer_norm = false;                    ///< norms subtract the mean
  bool value_heads_tiled = false;  ///< value heads of a delta net: the first of each key head, then the second, ...
  bool may_lack_eps = false;       ///< files may lack the norms' epsilon; transformers' default holds then
  bool attends_at_times = false;   ///< layers without key heads do not attend
  bool windowed_base = false;      ///< windowed layers may have a rotary base of their own
  /// Keys that this architecture reads; for others they must be 0 or false, since they change what the model computes.
  std::vector<std::string_view> features{};
  /// Adds the fields of config.json beside the common ones.
  void (*add_fields)(const architecture_keys& keys, json& config) = nullptr;
};

std::span<const gguf_architecture> gguf_architectures();

/// Finds an architecture. Throws `error` if it is not supported, or if the file has a feature that it does not read.
const gguf_architecture& find_architecture(const std::string& name, const json& metadata, const std::string& where);

/// Returns transformers' name of a tensor; empty: not one of the model's. Throws `error`, with the name, on a layer's
/// tensor that the architecture does not have. "{}" in a name stands for an expert's number.
std::string name_of_tensor(const gguf_architecture& a, std::string_view name, const std::string& where);

}  // namespace qkgeom
