// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Byte-pair encoding of words, as the "model" object of tokenizer.json describes it. Merges are applied lowest rank
/// first, ties from the left, in O(n log n) for a word of n characters.
class bpe_model {
 public:
  /// Throws `error` on a model that is not BPE, and on dropout, prefixes and suffixes, which no decoder family uses.
  explicit bpe_model(const nlohmann::json& model);

  /// Appends the ids of `word`, given in the vocabulary's alphabet as well-formed UTF-8. Characters outside the
  /// vocabulary become byte tokens or the unknown token if the model has them, else they are left out. Keeps a cache:
  /// one object is used by one thread at a time.
  void encode(std::string_view word, std::vector<std::int32_t>* ids) const;

  /// Id of a token of the vocabulary, or -1.
  std::int32_t find(std::string_view token) const;
  /// Largest id + 1.
  index_t size() const { return size_; }

 private:
  struct merge {
    std::uint32_t rank;
    std::int32_t id;
  };
  struct pair_hash {
    std::size_t operator()(std::uint64_t x) const {
      x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
      return x ^ (x >> 32);
    }
  };
  struct text_hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  template <class V>
  using text_map = std::unordered_map<std::string, V, text_hash, std::equal_to<>>;

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }
  void read_merges(const nlohmann::json& merges);
  std::vector<std::int32_t> characters(std::string_view word) const;
  void apply_merges(std::vector<std::int32_t>* symbols) const;

  text_map<std::int32_t> vocabulary_;
  std::unordered_map<std::uint64_t, merge, pair_hash> merges_;
  std::int32_t byte_tokens_[256];
  std::int32_t unknown_ = -1;
  bool byte_fallback_ = false, fuse_unknown_ = false, ignore_merges_ = false;
  index_t size_ = 0;
  mutable text_map<std::vector<std::int32_t>> cache_;
};

}  // namespace qkgeom
