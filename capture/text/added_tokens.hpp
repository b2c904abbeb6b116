// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace qkgeom {

/// Finds a tokenizer's added tokens (specials and others) in a text, from left to right; among tokens that start at the
/// same byte, the longest.
class added_token_finder {
 public:
  added_token_finder() { nodes_.emplace_back(); }

  struct options {
    bool strip_left = false;   ///< the token consumes the white space before it
    bool strip_right = false;  ///< the token consumes the white space after it
    bool single_word = false;  ///< the token is not found beside a word character
  };
  /// Adds a token. Among tokens with the same content, the last one counts.
  void add(std::string_view content, std::int32_t id, options how);
  bool empty() const { return nodes_.size() == 1; }

  /// Bytes [begin, end) of a text and the token found there.
  struct match {
    std::size_t begin = 0, end = 0;
    std::int32_t id = -1;
  };
  /// Iterates over the tokens of `text`. White space that a `strip_right` token consumes is searched too: a token found
  /// there begins before the previous match ends.
  class cursor {
   public:
    cursor(const added_token_finder& finder, std::string_view text) : finder_(finder), text_(text) {}
    bool next(match* m);

   private:
    const added_token_finder& finder_;
    std::string_view text_;
    std::size_t from_ = 0, done_ = 0;
  };

 private:
  struct node {
    std::map<unsigned char, std::uint32_t> next;
    std::int32_t id = -1;
    options how;
  };
  const node* longest(std::string_view text, std::size_t begin, std::size_t* end) const;

  std::vector<node> nodes_;
  std::array<bool, 256> starts_{};
};

}  // namespace qkgeom
