// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Byte-pair encoding of words, as the "model" object of tokenizer.json describes it. With `scores`, a list by id, in
/// place of `merges`, two tokens merge if their texts together are a token, largest score first, as in SentencePiece.
/// Merges are applied lowest rank first, ties from the left, in O(n log n) for a word of n characters. A long word (to
/// a SentencePiece vocabulary, a whole document) is first cut where no merge can reach across. One thread at a time may
/// use an object.
class bpe_model {
 public:
  /// Reads a model. Throws `error` if it is not BPE, and on dropout, prefixes and suffixes, which no family uses.
  explicit bpe_model(const nlohmann::json& model);

  /// Appends the ids of `word`, well-formed UTF-8 in the vocabulary's alphabet; may stop once `ids` holds `limit`.
  /// Characters outside the vocabulary become byte tokens or the unknown token if the model has them; else they are
  /// dropped.
  void encode(std::string_view word, std::size_t limit, std::vector<std::int32_t>* ids) const;

  std::int32_t find(std::string_view token) const;
  /// Returns the largest id + 1.
  index_t size() const { return size_; }
  /// Counts the look-ups of pairs so far, a measure of the work.
  std::uint64_t lookups() const { return lookups_; }

 private:
  /// The token that a pair of tokens becomes, and its rank; pairs of SentencePiece tokens of one score share a rank.
  struct rule {
    std::uint32_t rank;
    std::int32_t merged;
  };
  /// A token in a word that is being merged: its neighbours' positions and its rule with the next one.
  struct symbol {
    std::int32_t id;
    std::uint32_t previous, next;
    rule with_next;
  };
  struct text_hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct pair_hash {
    std::size_t operator()(std::uint64_t pair) const { return (pair ^ (pair >> 29)) * 0x9E3779B97F4A7C15u; }
  };
  template <class V>
  using text_map = std::unordered_map<std::string, V, text_hash, std::equal_to<>>;

  void read_vocabulary(const nlohmann::json& vocabulary);
  void read_merges(const nlohmann::json& merges);
  void read_scores(const nlohmann::json& scores);
  void add_merge(std::uint32_t rank, const std::string& left, const std::string& right);
  void add_rule(std::string_view left, std::string_view right, rule becomes);
  std::int32_t character(char32_t c) const { return c < characters_.size() ? characters_[c] : -1; }
  bool may_cut(char32_t before, char32_t after) const;
  std::size_t part_size(std::string_view word) const;
  std::vector<std::int32_t> symbols(std::string_view word) const;
  void merge(std::vector<std::int32_t>* ids) const;
  void encode_part(std::string_view part, std::vector<std::int32_t>* ids) const;

  text_map<std::int32_t> vocabulary_;
  std::vector<std::int32_t> characters_;  // ids of the tokens of one character
  std::unordered_map<std::uint64_t, rule, pair_hash> rules_;
  std::unordered_set<std::uint64_t, pair_hash> joints_;  // pairs of characters at which two tokens merge
  std::int32_t byte_tokens_[256];
  std::int32_t unknown_ = -1;
  bool byte_fallback_ = false, fuse_unknown_ = false, ignore_merges_ = false;
  bool all_bytes_ = false;   // every byte has its token
  bool odd_merges_ = false;  // a merge involves a byte token or the unknown token
  index_t size_ = 0;
  mutable text_map<std::vector<std::int32_t>> cache_;
  mutable std::uint64_t lookups_ = 0;
};

}  // namespace qkgeom
