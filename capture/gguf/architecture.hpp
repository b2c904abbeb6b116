// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {

/// The keys of a GGUF file that begin with its architecture's name, without it: "attention.head_count".
class architecture_keys {
 public:
  architecture_keys(const json& metadata, const std::string& architecture, const std::string& where)
      : metadata_(metadata), prefix_(architecture + '.'), where_(where) {}

  const std::string& where() const { return where_; }
  bool has(const std::string& key) const { return metadata_.contains(prefix_ + key); }
  /// Throws `error` that names the key if it is missing.
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

/// A tensor's name in GGUF and in transformers, without "blk.N." or its like; both without ending, or `gguf` with the
/// only ending that it has and `own` as it is.
struct tensor_names {
  std::string_view gguf, own;
};

/// What GGUF calls an architecture, and how its files differ from transformers' own.
struct gguf_architecture {
  std::string_view name, model_type;
  std::string_view models{};                                 ///< as docs/capture.md names them, where the name does not
  std::vector<std::span<const tensor_names>> layer_names{};  ///< searched in this order, then those that all have
  std::string_view embedding = "model.embed_tokens", final_norm = "model.norm", output = "lm_head";
  std::string_view layers = "model.layers.";  ///< what a layer's names begin with
  bool pairs_rows = false;                    ///< the converter reorders the rows of q and k
  bool norms_plus_one = false;                ///< norms are stored as 1 + w
  bool layer_norm = false;                    ///< norms subtract the mean
  bool value_heads_tiled = false;  ///< of a delta net: the first of each key head, then the second of each, ...
  bool may_lack_eps = false;       ///< files without the norms' epsilon mean that of transformers
  bool windowed_base = false;      ///< windowed layers may have a rotary base of their own
  /// Keys that are read here and that change what the model computes, unless they are 0 or false.
  std::vector<std::string_view> features{};
  /// Adds the fields of config.json that this architecture has beside the common ones.
  void (*add_fields)(const architecture_keys& keys, json& config) = nullptr;
};

/// The table of architectures.
std::span<const gguf_architecture> gguf_architectures();

/// Throws `error` on an architecture that is not supported, by name, and on features of others that it does not read.
const gguf_architecture& find_architecture(const std::string& name, const json& metadata, const std::string& where);

/// transformers' name of a tensor. Empty: none of the model's. Throws `error`, with the name, on a layer's tensor that
/// the architecture does not have. "{}" in a name stands for the number of an expert.
std::string name_of_tensor(const gguf_architecture& a, std::string_view name, const std::string& where);

}  // namespace qkgeom
