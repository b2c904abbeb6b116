// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace qkgeom {

/// Finds added tokens (specials and the like) in text: leftmost first, the longest of those that start there.
class added_token_finder {
 public:
  added_token_finder() { nodes_.emplace_back(); }

  struct options {
    bool strip_left = false;   ///< the token takes the white space before it
    bool strip_right = false;  ///< the token takes the white space after it
  };
  void add(std::string_view content, std::int32_t id, options o);
  bool empty() const { return nodes_.size() == 1; }

  struct match {
    std::size_t begin = 0, end = 0;
    std::int32_t id = -1;
  };
  /// The next token in `text` at byte `from` or later. Returns false if there is none.
  bool find(std::string_view text, std::size_t from, match* m) const;

 private:
  struct node {
    std::map<unsigned char, std::uint32_t> next;
    std::int32_t id = -1;
    options strip;
  };
  std::vector<node> nodes_;
  std::array<bool, 256> starts_{};
};

}  // namespace qkgeom
